#include "simulator/plan/plan_codec.hpp"

#include <fmt/format.h>

#include "simulator/plan/runtime_codec.hpp"

namespace tpplan {
namespace {

constexpr std::int64_t kMostRanks = 1 << 24;

int degree(MapReader& map, const char* key) {
  return static_cast<int>(map.required(key).integer(1, kMostRanks));
}

std::vector<Stage> read_stages(const Value& value) {
  std::vector<Stage> stages;
  for (const Value& entry : value.list()) {
    MapReader map = entry.map();
    Stage stage;
    stage.first_layer = static_cast<int>(map.required("first").integer(0, 1'000'000));
    stage.layers = static_cast<int>(map.required("layers").integer(0, 1'000'000));
    if (const auto v = map.optional("embedding")) stage.embedding = v->flag();
    if (const auto v = map.optional("head")) stage.head = v->flag();
    map.finish();
    stages.push_back(stage);
  }
  if (stages.empty()) value.fail("a plan needs at least one stage");
  return stages;
}

}  // namespace

std::string plan_to_yaml(const PlanDocument& document) {
  const ParallelPlan& p = document.plan;
  std::string text = fmt::format(
      "# Written by tpplan. `tpplan simulate --plan` shows it in depth, `tpplan check --plan` its rules.\n"
      "model: {}\ntopology: {}\ngpus: {}\n",
      yaml_string(document.model), yaml_string(document.topology), document.gpus);
  text +=
      fmt::format("tp: {}\ncp: {}\ndp: {}\npp: {}\nep: {}\nvpp: {}\n", p.tp, p.cp, p.dp, p.pp, p.ep, p.vpp);
  text +=
      fmt::format("sequence_parallel: {}\nzero: {}\nmicro_batch: {}\nglobal_batch: {}\nsequence: {}\n",
                  p.sequence_parallel, static_cast<int>(p.zero), p.micro_batch, p.global_batch, p.sequence);
  text += fmt::format("recompute: {}\nschedule: {}\nprecision: {}\nbucket: {} B\norder: {}\n",
                      kRecomputeNames[static_cast<std::size_t>(p.recompute)],
                      kScheduleNames[static_cast<std::size_t>(p.schedule)], name(p.precision),
                      p.bucket.value(), kAxisOrderNames[static_cast<std::size_t>(p.order)]);
  text += "stages:  # in model order; stage i runs on pipeline rank i % pp\n";
  for (const Stage& stage : p.stages)
    text += fmt::format("  - {{first: {}, layers: {}{}{}}}\n", stage.first_layer, stage.layers,
                        stage.embedding ? ", embedding: true" : "", stage.head ? ", head: true" : "");
  return text + "runtime:\n" + runtime_to_yaml(p.runtime, 2);
}

PlanDocument plan_from(const Value& value) {
  PlanDocument document;
  ParallelPlan& p = document.plan;
  MapReader map = value.map();
  document.model = map.required("model").text();
  document.topology = map.required("topology").text();
  document.gpus = degree(map, "gpus");
  p.tp = degree(map, "tp");
  p.pp = degree(map, "pp");
  p.dp = degree(map, "dp");
  if (map.has("cp")) p.cp = degree(map, "cp");
  if (map.has("ep")) p.ep = degree(map, "ep");
  if (map.has("vpp")) p.vpp = degree(map, "vpp");
  if (const auto v = map.optional("sequence_parallel")) p.sequence_parallel = v->flag();
  p.zero = static_cast<ZeroStage>(map.required("zero").integer(0, 3));
  p.micro_batch = degree(map, "micro_batch");
  p.global_batch = map.required("global_batch").integer(1, 1LL << 40);
  p.sequence = degree(map, "sequence");
  p.recompute = map.required("recompute").choice<Recompute>(kRecomputeNames);
  p.schedule = map.required("schedule").choice<ScheduleKind>(kScheduleNames);
  p.precision = map.required("precision").choice<Precision>(kPrecisionNames);
  if (const auto v = map.optional("order")) p.order = v->choice<AxisOrder>(kAxisOrderNames);
  if (const auto v = map.optional("runtime")) p.runtime = runtime_from(*v);
  const auto bucket = map.optional("bucket");
  p.bucket = bucket ? bucket->bytes() : default_bucket(p.runtime, p.dp);
  p.stages = read_stages(map.required("stages"));
  map.finish();
  return document;
}

PlanDocument read_plan(const std::filesystem::path& file) { return plan_from(read_document(file)); }

}  // namespace tpplan
