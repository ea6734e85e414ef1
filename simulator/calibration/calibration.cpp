#include "simulator/calibration/calibration.hpp"

#include <fmt/format.h>

#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

/// The optimizer's bytes pass through streaming(), collectives of the tensor group through collective():
/// their factors go into constants of their own, over the ones that are applied there.
KernelConstants with_calibration(KernelConstants constants, const Calibration& calibration) {
  const double streaming = calibration.factors[static_cast<std::size_t>(Factor::streaming)];
  const double optimizer = calibration.factors[static_cast<std::size_t>(Factor::optimizer)];
  if (streaming > 0) constants.optimizer_bytes *= optimizer / streaming;
  const auto relative = [&](Factor tensor, Factor data) {
    const double applied = calibration.factors[static_cast<std::size_t>(data)];
    return applied > 0 ? calibration.factors[static_cast<std::size_t>(tensor)] / applied : 1;
  };
  constants.tensor_collectives *= relative(Factor::tensor_parallel, Factor::data_parallel);
  constants.tensor_network_collectives *= relative(Factor::tensor_network, Factor::data_network);
  constants.overlap_slowdown = calibration.overlap_slowdown;
  return constants;
}

}  // namespace

std::string calibration_to_yaml(const Calibration& c) {
  std::string text = fmt::format(
      "# Written by tpplan calibrate. Factors are measured over predicted time.\nname: {}\nsource: {}\n",
      yaml_string(c.name), yaml_string(c.source));
  text += "factors:\n";
  for (std::size_t i = 0; i < kFactorNames.size(); ++i)
    text += fmt::format("  {}: {:.6g}{}\n", kFactorNames[i], c.factors[i],
                        c.identified[i] ? "" : "  # not identified by these runs");
  text += "identified: [";
  bool more = false;
  for (std::size_t i = 0; i < kFactorNames.size(); ++i)
    if (c.identified[i]) {
      text += fmt::format("{}{}", more ? ", " : "", kFactorNames[i]);
      more = true;
    }
  return text + fmt::format(
                    "]\noverlap_slowdown: {:.6g}\nfixed_per_step: {:.6g} us\nruns: {}\ntasks: {}\n"
                    "task_error: {:.6g}\nstep_error: {:.6g}\n",
                    c.overlap_slowdown, c.fixed_per_step.value() * 1e6, c.runs, c.tasks, c.task_error,
                    c.step_error);
}

Calibration read_calibration(const std::filesystem::path& file) {
  const Value document = read_document(file);
  MapReader map = document.map();
  Calibration c;
  c.name = map.required("name").text();
  if (const auto v = map.optional("source")) c.source = v->text();
  MapReader factors = map.required("factors").map();
  for (std::size_t i = 0; i < kFactorNames.size(); ++i)
    if (const auto v = factors.optional(std::string(kFactorNames[i]))) c.factors[i] = v->number(0, 1e6);
  factors.finish();
  if (const auto v = map.optional("identified"))
    for (const Value& one : v->list()) c.identified[one.choice(kFactorNames)] = true;
  if (const auto v = map.optional("overlap_slowdown")) c.overlap_slowdown = v->number(0, 10);
  if (const auto v = map.optional("fixed_per_step")) c.fixed_per_step = v->seconds();
  if (const auto v = map.optional("runs")) c.runs = static_cast<int>(v->integer(0, 1 << 30));
  if (const auto v = map.optional("tasks")) c.tasks = static_cast<int>(v->integer(0, 1 << 30));
  if (const auto v = map.optional("task_error")) c.task_error = v->number(0, 1e9);
  if (const auto v = map.optional("step_error")) c.step_error = v->number(0, 1e9);
  map.finish();
  return c;
}

CalibratedCostModel::CalibratedCostModel(const DeviceSpec& device, CollectiveAlgorithm forced,
                                         const Calibration& calibration)
    : CostModel(with_calibration(AnalyticCostModel(device, forced).constants(), calibration)),
      plain_(device, forced),
      factors_(calibration.factors) {}

Seconds CalibratedCostModel::product(const ProductShape& shape) const {
  return plain_.product(shape) * factor(Factor::products);
}
Seconds CalibratedCostModel::attention(const AttentionShape& shape) const {
  return plain_.attention(shape) * factor(Factor::attention);
}
Seconds CalibratedCostModel::streaming(Bytes bytes, double kernels) const {
  return plain_.streaming(bytes, kernels) * factor(Factor::streaming);
}
Seconds CalibratedCostModel::collective(Collective what, Bytes bytes, const GroupPath& path) const {
  return plain_.collective(what, bytes, path) * factor(what == Collective::send ? Factor::transfers
                                                       : path.nodes > 1         ? Factor::data_network
                                                                                : Factor::data_parallel);
}

}  // namespace tpplan
