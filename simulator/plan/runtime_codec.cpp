#include "simulator/plan/runtime_codec.hpp"

#include <fmt/format.h>

#include "simulator/plan/runtime_profiles.hpp"

namespace tpplan {
namespace {

/// Visits every option with its key; reader and writer share the list, so that neither can forget one.
template <class Options, class Visitor>
void visit_options(Options& o, Visitor visit) {
  visit("attention", o.attention, kAttentionKernelNames);
  visit("fusion", o.fusion, kFusionNames);
  visit("tp_overlap", o.tp_overlap, kTpOverlapNames);
  visit("dp_overlap", o.dp_overlap, kDpOverlapNames);
  visit("fused_norm", o.fused_norm);
  visit("fused_cross_entropy", o.fused_cross_entropy);
  visit("dropout", o.dropout);
  visit("parallel_cross_entropy", o.parallel_cross_entropy);
  visit("gather_overlaps", o.gather_overlaps);
  visit("gradient_bucketing", o.gradient_bucketing);
  visit("reshard_after_forward", o.reshard_after_forward);
  visit("cuda_graphs", o.cuda_graphs);
  visit("keeps_stage_outputs", o.keeps_stage_outputs);
  visit("double_buffered_reduction", o.double_buffered_reduction);
  visit("p2p_overlap", o.p2p_overlap);
  visit("embedding_weighs_a_layer", o.embedding_weighs_a_layer);
  visit("selective_saves_products", o.selective_saves_products);
  visit("recompute_ends_before_output", o.recompute_ends_before_output);
  visit("selective_recomputes_cheap", o.selective_recomputes_cheap);
  visit("zero3_bandwidth_share", o.zero3_bandwidth_share);
  visit("gradient_bytes", o.gradient_bytes);
  visit("reduce_bytes", o.reduce_bytes);
  visit("optimizer_bytes", o.optimizer_bytes);
  visit("logit_bytes", o.logit_bytes);
  visit("zero3_messages", o.zero3_messages);
  visit("kernels_per_layer", o.kernels_per_layer);
  visit("launch", o.launch);
  visit("fixed_per_step", o.fixed_per_step);
  visit("reduce_buffers", o.reduce_buffers);
}

class Reading {
 public:
  explicit Reading(MapReader& map) : map_(map) {}
  template <class Enum, std::size_t N>
  void operator()(const char* key, Enum& out, const std::array<std::string_view, N>& names) const {
    if (const auto value = map_.optional(key)) out = value->choice<Enum>(names);
  }
  void operator()(const char* key, bool& out) const {
    if (const auto value = map_.optional(key)) out = value->flag();
  }
  void operator()(const char* key, double& out) const {
    if (const auto value = map_.optional(key)) out = value->number(0, 1000);
  }
  void operator()(const char* key, int& out) const {
    if (const auto value = map_.optional(key)) out = static_cast<int>(value->integer(1, 100'000));
  }
  void operator()(const char* key, Seconds& out) const {
    if (const auto value = map_.optional(key)) out = value->seconds();
  }
  void operator()(const char* key, Bytes& out) const {
    if (const auto value = map_.optional(key)) out = value->bytes();
  }

 private:
  MapReader& map_;
};

/// Every option as text, by key.
class Writing {
 public:
  explicit Writing(std::vector<std::pair<std::string, std::string>>& lines) : lines_(lines) {}
  template <class Enum, std::size_t N>
  void operator()(const char* key, Enum value, const std::array<std::string_view, N>& names) const {
    lines_.emplace_back(key, names[static_cast<std::size_t>(value)]);
  }
  void operator()(const char* key, bool value) const { lines_.emplace_back(key, value ? "true" : "false"); }
  void operator()(const char* key, double value) const { lines_.emplace_back(key, fmt::format("{}", value)); }
  void operator()(const char* key, int value) const { lines_.emplace_back(key, fmt::format("{}", value)); }
  void operator()(const char* key, Seconds value) const {
    lines_.emplace_back(key, fmt::format("{} s", value.value()));
  }
  void operator()(const char* key, Bytes value) const {
    lines_.emplace_back(key, fmt::format("{} B", value.value()));
  }

 private:
  std::vector<std::pair<std::string, std::string>>& lines_;
};

}  // namespace

RuntimeOptions runtime_from(const Value& value) {
  MapReader map = value.map();
  const Value framework = map.required("framework");
  const auto profile = runtime_profile(framework.text());
  if (!profile)
    framework.fail(fmt::format("unknown framework '{}'{}", framework.text(),
                               did_you_mean(framework.text(), runtime_profile_names())));
  RuntimeOptions options = *profile;
  visit_options(options, Reading(map));
  map.finish();
  return options;
}

std::string runtime_to_yaml(const RuntimeOptions& options, int indent) {
  std::vector<std::pair<std::string, std::string>> ours, defaults;
  const RuntimeOptions profile = runtime_profile(options.framework).value_or(RuntimeOptions{});
  visit_options(options, Writing(ours));
  visit_options(profile, Writing(defaults));
  std::string text = fmt::format("{:{}}framework: {}\n", "", indent, options.framework);
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i] != defaults[i])
      text += fmt::format("{:{}}{}: {}\n", "", indent, ours[i].first, ours[i].second);
  return text;
}

}  // namespace tpplan
