#include "planner/workbench/json.hpp"

#include <nlohmann/json.hpp>

#include "planner/workbench/reasons.hpp"

namespace tpplan {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(2) + "\n"; }

Json json_of(const ParallelPlan& p) {
  Json stages = Json::array();
  for (const Stage& s : p.stages) stages.push_back({{"first_layer", s.first_layer}, {"layers", s.layers}});
  return {{"tp", p.tp},
          {"pp", p.pp},
          {"dp", p.dp},
          {"cp", p.cp},
          {"ep", p.ep},
          {"vpp", p.vpp},
          {"sequence_parallel", p.sequence_parallel},
          {"zero", static_cast<int>(p.zero)},
          {"micro_batch", p.micro_batch},
          {"global_batch", p.global_batch},
          {"sequence", p.sequence},
          {"recompute", kRecomputeNames[static_cast<std::size_t>(p.recompute)]},
          {"schedule", kScheduleNames[static_cast<std::size_t>(p.schedule)]},
          {"precision", name(p.precision)},
          {"order", kAxisOrderNames[static_cast<std::size_t>(p.order)]},
          {"framework", p.runtime.framework},
          {"stages", stages}};
}

Json json_of(const Breakdown& b) {
  Json json;
  for (const Term& term : breakdown_terms()) json[std::string(term.name)] = (b.*term.part).value();
  return json;
}

Json json_of(const MemoryReport& memory) {
  Json ranks = Json::array();
  for (const StageMemory& rank : memory.ranks) {
    Json line;
    for (std::size_t c = 0; c < kMemoryCategoryNames.size(); ++c)
      line[std::string(kMemoryCategoryNames[c])] = rank.bytes[c].value();
    line["total"] = rank.total().value();
    line["at_loss"] = rank.at_loss;
    ranks.push_back(line);
  }
  return {{"peak", memory.peak().value()}, {"worst_rank", memory.worst()}, {"ranks", ranks}};
}

Json json_of(const SimulationReport& r) {
  return {{"step_s", r.step.value()},
          {"tokens_per_second", r.tokens_per_second},
          {"mfu", r.mfu},
          {"hfu", r.hfu},
          {"exposed_communication_share", r.breakdown.exposed_communication() / r.step},
          {"bubble_share", r.breakdown.bubble / r.step},
          {"breakdown_s", json_of(r.breakdown)},
          {"memory_bytes", json_of(r.memory)}};
}

Json json_of(const Understood& u) {
  const Problem& p = u.problem;
  const ParameterCount count = count_parameters(p.model);
  const Topology& t = p.topology;
  return {{"model",
           {{"name", p.model.name},
            {"file", u.model_file},
            {"layers", p.model.layers},
            {"hidden", p.model.hidden},
            {"heads", p.model.heads},
            {"kv_heads", p.model.kv_heads},
            {"vocabulary", p.model.vocabulary},
            {"parameters", count.total()},
            {"parameters_without_embeddings", count.total() - count.embeddings()}}},
          {"cluster",
           {{"name", t.name},
            {"gpus", t.gpus},
            {"machines", t.nodes()},
            {"gpus_per_machine", t.used_per_node},
            {"device", t.device.name},
            {"memory_bytes", t.device.memory.value()},
            {"nvlink_domain", t.nvlink_domain},
            {"nics_per_machine", t.nics_per_node},
            {"nic_bytes_per_second", t.fabric.nic_bandwidth.value()}}},
          {"placement", u.placement},
          {"batch",
           {{"samples", p.global_batch},
            {"sequence", p.sequence},
            {"precision", name(p.precision)},
            {"framework", p.runtime.framework}}}};
}

Json json_of(const std::vector<Violation>& violations) {
  Json list = Json::array();
  for (const Violation& v : violations)
    list.push_back({{"rule", kRuleNames[static_cast<std::size_t>(v.rule)]},
                    {"message", v.message},
                    {"remedy", v.remedy}});
  return list;
}

Json json_of_verdict(const PlanVerdict& verdict) {
  Json json = json_of(verdict.understood);
  json["plan"] = json_of(verdict.document.plan);
  json["violations"] = json_of(verdict.violations);
  json["memory_limit_bytes"] = verdict.limit.value();
  return json;
}

Json json_of(const Change& c) {
  return {{"change", c.what},
          {"step_s", c.report.step.value()},
          {"gain", c.gain},
          {"fits", c.fits},
          {"peak_memory_bytes", c.report.memory.peak().value()},
          {"plan", json_of(c.plan)}};
}

}  // namespace

std::string to_json(const PlanReport& report) {
  const SearchResult& result = report.result;
  Json json = json_of(report.understood);
  Json rejected;
  for (const auto& [rule, count] : result.rejected)
    rejected[std::string(kRuleNames[static_cast<std::size_t>(rule)])] = count;
  json["search"] = {{"space", result.space},
                    {"rejected", rejected},
                    {"pruned", result.pruned},
                    {"simulated", result.simulated},
                    {"wall_s", result.wall.value()}};
  json["plans"] = Json::array();
  for (const RankedPlan& ranked : result.plans) {
    Json plan = json_of(ranked.report);
    plan["plan"] = json_of(ranked.plan);
    json["plans"].push_back(plan);
  }
  json["reasons"] = report.reasons;
  if (result.nearest)
    json["nearest"] = {{"plan", json_of(result.nearest->plan)},
                       {"memory_bytes", json_of(result.nearest->report.memory)}};
  return text_of(json);
}

std::string to_json(const SimulateReport& report) {
  Json json = json_of_verdict(report);
  if (!report.violations.empty()) return text_of(json);
  json["fits"] = report.fits;
  json["simulation"] = json_of(report.simulation);
  Json busy = Json::array();
  for (const Seconds s : report.simulation.rank_compute) busy.push_back(s.value());
  json["simulation"]["rank_compute_s"] = busy;
  json["simulation"]["stages"] = Json::array();
  for (const StageTimes& stage : report.simulation.stages)
    json["simulation"]["stages"].push_back({{"forward_s", stage.forward.value()},
                                            {"backward_s", stage.backward.value()},
                                            {"parameters", stage.parameters}});
  Json moved = Json::array();
  for (const Bytes b : report.simulation.rank_tensor_parallel) moved.push_back(b.value());
  json["simulation"]["rank_tensor_parallel_bytes"] = moved;
  return text_of(json);
}

std::string to_json(const CheckReport& report) {
  Json json = json_of_verdict(report);
  if (report.memory) json["memory_bytes"] = json_of(*report.memory);
  return text_of(json);
}

std::string to_json(const ExplainReport& report) {
  Json json = json_of_verdict(report);
  if (!report.violations.empty()) return text_of(json);
  json["fits"] = report.fits;
  json["simulation"] = json_of(report.simulation);
  json["changes"] = Json::array();
  for (const Change& change : report.changes) json["changes"].push_back(json_of(change));
  if (report.smallest_fit) json["smallest_fit"] = json_of(*report.smallest_fit);
  return text_of(json);
}

std::string to_json(const TopologyReport& report) {
  const Topology& t = report.topology;
  Json bandwidth = Json::array();
  for (const auto& row : report.bandwidth) {
    Json line = Json::array();
    for (const BytesPerSecond rate : row) line.push_back(rate.value());
    bandwidth.push_back(line);
  }
  return text_of({{"name", t.name},
                  {"gpus", t.gpus},
                  {"machines", t.nodes()},
                  {"device", t.device.name},
                  {"nvlink_domain", t.nvlink_domain},
                  {"bandwidth_bytes_per_second", bandwidth},
                  {"connection", report.connection},
                  {"routes", report.routes},
                  {"nic_of_gpu", t.nic_of_gpu},
                  {"weakest", report.weakest}});
}

std::string to_json(const ModelReport& report) {
  Json operators = Json::array();
  for (const OperatorRow& row : report.operators)
    operators.push_back({{"name", row.name},
                         {"kind", kOperatorKindNames[static_cast<std::size_t>(row.kind)]},
                         {"split", kSplitNames[static_cast<std::size_t>(row.split)]},
                         {"times", row.repeats},
                         {"parameters", row.parameters},
                         {"forward_flops", row.forward_flops},
                         {"activation_bytes", row.activation_bytes}});
  Json degrees = Json::array();
  for (const TpDegree& d : report.degrees)
    degrees.push_back({{"tp", d.tp}, {"legal", d.reason.empty()}, {"reason", d.reason}, {"note", d.note}});
  return text_of({{"name", report.model.name},
                  {"family", report.model.family},
                  {"parameters", report.count.total()},
                  {"sequence", report.sequence},
                  {"flops_per_token", report.flops_per_token},
                  {"operators", operators},
                  {"tp_degrees", degrees}});
}

std::string to_json(const ValidationReport& report) {
  Json sources;
  for (const auto& [name, a] : report.sources)
    sources[name] = {{"runs", a.runs},
                     {"timed", a.timed},
                     {"predicted", a.predicted},
                     {"mape", a.mean_error},
                     {"median", a.median_error},
                     {"bias", a.bias},
                     {"memory_runs", a.memory_runs},
                     {"memory_mape", a.memory_error},
                     {"oom_runs", a.oom_runs},
                     {"oom_found", a.oom_found},
                     {"fitting_runs", a.fitting_runs},
                     {"oom_false", a.oom_false},
                     {"groups", a.groups},
                     {"regret", a.regret},
                     {"rank_correlation", a.rank_correlation}};
  Json worst = Json::array();
  for (const Outlier& o : report.worst)
    worst.push_back({{"id", o.id}, {"error", o.error}, {"term", o.dominant_term}});
  return text_of({{"sources", sources},
                  {"macro_mape", report.macro_error},
                  {"macro_memory_mape", report.macro_memory_error},
                  {"worst", worst},
                  {"taken_as", report.taken_as},
                  {"not_predicted", report.unmodelled}});
}

std::string to_json(const ListReport& report) {
  return text_of({{"models", report.models},
                  {"topologies", report.topologies},
                  {"devices", report.devices},
                  {"experiments", report.experiments},
                  {"frameworks", report.frameworks}});
}

}  // namespace tpplan
