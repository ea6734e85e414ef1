#include <algorithm>
#include <fmt/format.h>

#include "simulator/calibration/validation.hpp"
#include "simulator/document/document.hpp"
#include "simulator/plan/runtime_profiles.hpp"
#include "simulator/topology/cluster_builder.hpp"
#include "simulator/topology/topology_reader.hpp"

namespace tpplan {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;

int count(Value value) { return static_cast<int>(value.integer(1, kMost)); }

struct RecordModel {
  ModelSpec spec;
  bool flash = true;
};

RecordModel read_record_model(const Value& value) {
  RecordModel record;
  ModelSpec& m = record.spec;
  MapReader map = value.map();
  m.name = map.required("name").text();
  m.layers = count(map.required("layers"));
  m.hidden = count(map.required("hidden"));
  m.heads = count(map.required("heads"));
  m.kv_heads = count(map.required("kv_heads"));
  const auto head_dim = map.optional("head_dim");
  m.head_dim = head_dim ? count(*head_dim) : static_cast<int>(m.hidden / m.heads);
  m.ffn = count(map.required("ffn"));
  m.gated_mlp = map.required("gated_mlp").flag();
  m.vocabulary = count(map.required("vocab"));
  m.sequence = count(map.required("seq"));
  m.tied_embeddings = map.required("tied_embeddings").flag();
  record.flash = map.required("attention").text() == "flash";
  if (m.gated_mlp) {
    m.family = "llama";
    m.norm = NormKind::rms_norm;
    m.activation = ActivationKind::silu;
    m.position = PositionKind::rotary;
  } else {
    m.family = "gpt";
    m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
    m.learned_positions = m.sequence;
  }
  if (const auto moe = map.optional("moe")) {
    MapReader experts = moe->map();
    MoeSpec spec;
    spec.experts = count(experts.required("experts"));
    spec.top_k = count(experts.required("topk"));
    if (const auto ffn = experts.optional("expert_ffn")) spec.expert_ffn = count(*ffn);
    for (const std::string& key : experts.keys()) experts.ignore(key);
    m.moe = spec;
  }
  map.finish();
  return record;
}

void read_runtime(const Value& value, bool flash, RuntimeOptions& run, std::vector<std::string>& taken_as) {
  MapReader map = value.map();
  const std::string framework = map.required("framework").text();
  const auto profile = runtime_profile(framework);
  const std::string known = profile ? framework : closest_profile_name(framework);
  if (!profile) taken_as.push_back(fmt::format("framework {} as {}", framework, known));
  run = runtime_profile(known).value();
  if (!flash && run.attention >= AttentionKernel::flash1) run.attention = AttentionKernel::fused_softmax;
  if (const auto kernel = map.optional("attention_kernel"))
    if (kernel->text() != "flash") run.attention = kernel->choice<AttentionKernel>(kAttentionKernelNames);
  const auto flag = [&](const char* key, auto apply) {
    if (const auto given = map.optional(key)) apply(given->flag());
  };
  flag("fused_norm", [&](bool on) { run.fused_norm = on; });
  flag("tp_overlap", [&](bool on) { run.tp_overlap = on ? TpOverlap::user_buffers : TpOverlap::wgrad; });
  flag("dp_overlap", [&](bool on) { run.dp_overlap = on ? DpOverlap::backward : DpOverlap::none; });
  flag("gradient_bucketing", [&](bool on) { run.gradient_bucketing = on; });
  flag("compile", [&](bool on) { run.fusion = on ? Fusion::compiled : Fusion::eager; });
  flag("async_tp", [&](bool on) {
    if (on) run.tp_overlap = TpOverlap::async;
  });
  flag("cuda_graphs", [&](bool on) { run.cuda_graphs = on; });
  flag("reshard_after_forward", [&](bool on) { run.reshard_after_forward = on; });
  flag("fused_cross_entropy", [&](bool on) { run.fused_cross_entropy = on; });
  flag("embedding_weighs_a_layer", [&](bool on) { run.embedding_weighs_a_layer = on; });
  flag("interleaved", [](bool) {});
  if (const auto type = map.optional("grad_dtype")) {
    constexpr std::array<std::string_view, 3> names{"fp32", "bf16", "fp16"};
    run.reduce_bytes = type->choice(names) == 0 ? 4 : 2;
    // A trainer that works with 16-bit gradients accumulates them in a second, fp32 buffer.
    if (run.gradient_bytes < run.reduce_bytes) run.gradient_bytes += run.reduce_bytes;
  }
  if (const auto scope = map.optional("selective_scope"))
    run.selective_saves_products = scope->text() == "operators";
  map.ignore("fp8_scaling");
  map.finish();
}

void read_plan(const Value& value, MeasuredRun& run) {
  MapReader map = value.map();
  ParallelPlan& p = run.plan;
  p.tp = count(map.required("tp"));
  p.pp = count(map.required("pp"));
  p.vpp = count(map.required("vpp"));
  p.dp = count(map.required("dp"));
  p.cp = count(map.required("cp"));
  p.ep = count(map.required("ep"));
  p.zero = static_cast<ZeroStage>(map.required("zero").integer(0, 3));
  p.sequence_parallel = map.required("sequence_parallel").flag() && p.tp > 1;
  p.recompute = map.required("recompute").choice<Recompute>(kRecomputeNames);
  p.micro_batch = count(map.required("micro_batch"));
  p.global_batch = map.required("global_batch").integer(1, kMost);
  p.precision = map.required("precision").choice<Precision>(kPrecisionNames);
  p.schedule = p.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (const auto schedule = map.optional("schedule")) {
    const auto known = std::find(kScheduleNames.begin(), kScheduleNames.end(), schedule->text());
    if (known == kScheduleNames.end())
      run.unmodelled = "schedule " + schedule->text();
    else
      p.schedule = static_cast<ScheduleKind>(known - kScheduleNames.begin());
  }
  if (p.dp == 1 && p.cp == 1) p.zero = ZeroStage::none;
  map.finish();
}

/// Embedding and head each take the place of a layer: deal layers + 2 out evenly and take one back from both
/// ends.
std::vector<Stage> stages_with_ends(int layers, int pp, int vpp) {
  std::vector<Stage> stages = even_stages(layers + 2, pp, vpp);
  stages.front().layers -= 1;
  stages.back().layers -= 1;
  int first = 0;
  for (Stage& stage : stages) {
    stage.first_layer = first;
    first += stage.layers;
  }
  return stages;
}

/// The device of that name, or of the same family ("H200" before the first dash) the one spelt most alike;
/// null without any.
const DeviceSpec* device_or_relative(const std::map<std::string, DeviceSpec>& devices,
                                     const std::string& name) {
  if (const auto found = devices.find(name); found != devices.end()) return &found->second;
  const std::string family = name.substr(0, name.find('-'));
  std::vector<std::string> relatives;
  for (const auto& [known, device] : devices)
    if (known.substr(0, known.find('-')) == family) relatives.push_back(known);
  if (relatives.empty()) return nullptr;
  return &devices.at(nearest_spelling(name, relatives).value_or(relatives.front()));
}

/// A run that was measured is possible: only what the simulator cannot express keeps it from a prediction.
bool prevents_simulation(Rule rule) {
  switch (rule) {
    case Rule::heads:
    case Rule::kv_heads:
    case Rule::hidden:
    case Rule::sequence_split:
    case Rule::positions:
    case Rule::island:
      return false;
    default:
      return true;
  }
}

MeasuredRun read_run(const Value& value, const std::string& group,
                     const std::map<std::string, DeviceSpec>& devices) {
  MeasuredRun run;
  run.group = group;
  MapReader map = value.map();
  run.id = map.required("id").text();
  map.ignore("source");
  map.ignore("notes");
  const RecordModel model = read_record_model(map.required("model"));
  run.problem.model = model.spec;
  run.problem.sequence = model.spec.sequence;
  read_plan(map.required("plan"), run);
  read_runtime(map.required("runtime"), model.flash, run.problem.runtime, run.taken_as);

  MapReader cluster = map.required("cluster").map();
  const std::string gpu = cluster.required("gpu").text();
  const DeviceSpec* device = device_or_relative(devices, gpu);
  if (device == nullptr) {
    run.unmodelled = "device " + gpu;
    device = &devices.begin()->second;
  } else if (device->name != gpu) {
    run.taken_as.push_back(fmt::format("device {} as {}", gpu, device->name));
  }
  const int gpus = count(cluster.required("gpus"));
  const int per_node = count(cluster.required("gpus_per_node"));
  const int domain = count(cluster.required("nvlink_domain"));
  const double gigabits = cluster.required("network_gbit_per_node").number(0, 1e6);
  cluster.finish();
  run.problem.topology = make_cluster(*device, gpus, per_node, domain, gigabytes_per_second(gigabits / 8));

  ParallelPlan& plan = run.plan;
  plan.sequence = run.problem.sequence;
  plan.runtime = run.problem.runtime;
  plan.bucket = default_bucket(plan.runtime, plan.dp);
  run.problem.global_batch = plan.global_batch;
  run.problem.precision = plan.precision;
  run.problem.max_tp = plan.tp;
  const bool ends_weigh =
      run.problem.runtime.embedding_weighs_a_layer && (model.spec.layers + 2) % (plan.pp * plan.vpp) == 0;
  if (model.spec.layers >= plan.pp * plan.vpp)
    plan.stages = ends_weigh ? stages_with_ends(model.spec.layers, plan.pp, plan.vpp)
                             : even_stages(model.spec.layers, plan.pp, plan.vpp);

  MapReader measured = map.required("measured").map();
  if (const auto step = measured.optional("step_s")) run.step = Seconds{step->number(1e-6, 1e6)};
  if (const auto peak = measured.optional("peak_memory_gib"))
    run.peak_memory = gibibytes(peak->number(0.001, 1e5));
  if (const auto kind = measured.optional("memory_kind")) run.memory_kind = kind->text();
  if (const auto oom = measured.optional("oom")) run.out_of_memory = oom->flag();
  measured.finish();
  if (const auto assumed = map.optional("assumed"))
    for (const Value& field : assumed->list()) run.assumed.push_back(field.text());
  map.finish();

  for (const Violation& broken : violations(run.problem, plan))
    if (run.unmodelled.empty() && prevents_simulation(broken.rule))
      run.unmodelled = kRuleNames[static_cast<std::size_t>(broken.rule)];
  return run;
}

}  // namespace

std::vector<MeasuredRun> read_measured_runs(const std::filesystem::path& folder,
                                            const std::filesystem::path& devices) {
  if (!std::filesystem::is_directory(folder)) throw ConfigError(folder.string() + ": no such folder");
  std::map<std::string, DeviceSpec> known;
  for (const auto& entry : std::filesystem::directory_iterator(devices))
    if (entry.path().extension() == ".yaml") {
      DeviceSpec device = read_device(entry.path());
      known.emplace(device.name, std::move(device));
    }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<MeasuredRun> runs;
  for (const auto& file : files)
    for (const Value& record : read_document(file).list())
      runs.push_back(read_run(record, file.stem().string(), known));
  return runs;
}

}  // namespace tpplan
