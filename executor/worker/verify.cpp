#include "executor/worker/verify.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/train/tensor_files.hpp"

namespace tpplan {
namespace {

using nlohmann::json;

/// Unit roundoff of the format that activations and weights have.
double roundoff(Precision precision) {
  return std::ldexp(1.0, precision == Precision::bf16 ? -8 : precision == Precision::fp16 ? -11 : -24);
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  return json::parse(in);
}

}  // namespace

void compare_gradients(const Workload& work) {
  const std::filesystem::path folder = work.job.output;
  const TensorFiles plan(folder, "plan"), one(folder, "one");
  const json of_plan = read_json(folder / "plan.json"), of_one = read_json(folder / "one.json");
  const double u = roundoff(work.plan.precision);
  // Sums of some hundred terms in another order: 1e-5 in fp32, and as much coarser as the format is.
  const double tolerance = 170 * u;
  const std::vector<PublishedTensor> tensors = published_tensors(work.model);
  double elements = 0;
  for (const PublishedTensor& t : tensors) {
    double count = 1;
    for (const std::int64_t n : t.shape) count *= static_cast<double>(n);
    elements += count;
  }
  const double typical = of_one.at("gradient_norm").get<double>() / std::sqrt(elements);
  json result{{"loss", of_plan.at("loss")},
              {"loss_of_one", of_one.at("loss")},
              {"gradient_norm", of_plan.at("gradient_norm")},
              {"gradient_norm_of_one", of_one.at("gradient_norm")},
              {"tolerance", tolerance},
              {"tensors", tensors.size()},
              {"first_wrong", ""},
              {"first_wrong_error", 0.0}};
  double worst = 0;
  std::string name_of_worst;
  for (const PublishedTensor& tensor : tensors) {
    std::vector<float> difference = plan.whole(tensor.name);
    const std::vector<float> expected = one.whole(tensor.name);
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
    const double size = norm_of(expected), off = norm_of(difference);
    const double floor = 2 * u * typical * std::sqrt(static_cast<double>(expected.size()));
    const double error = off / std::max(size, floor / tolerance);
    if (error > worst || name_of_worst.empty()) worst = error, name_of_worst = tensor.name;
    if (!(error <= tolerance) && result["first_wrong"] == "") {
      result["first_wrong"] = tensor.name;
      result["first_wrong_error"] = error;
    }
  }
  result["worst"] = name_of_worst;
  result["worst_error"] = worst;
  write_file(folder / "verified.json", result.dump(2) + "\n");
}

}  // namespace tpplan
