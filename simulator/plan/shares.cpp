#include "simulator/plan/shares.hpp"

#include <algorithm>

#include "simulator/plan/problem.hpp"

namespace tpplan {

BlockParameters block_parameters(const ModelSpec& model, int tp) {
  const ParameterCount count = count_parameters(model);
  const double rows = static_cast<double>(padded_vocabulary(model.vocabulary, tp));
  const double hidden = static_cast<double>(model.hidden);
  const double kv_copies = std::max(1.0, static_cast<double>(tp) / model.kv_heads);
  const double kv_extra = 2 * hidden * static_cast<double>(model.kv_width()) * (kv_copies - 1);
  BlockParameters blocks;
  blocks.layer = (static_cast<double>(count.attention_per_layer + count.mlp_per_layer) + kv_extra) / tp +
                 static_cast<double>(count.norms_per_layer);
  blocks.embedding = rows * hidden / tp + static_cast<double>(count.position_embedding);
  blocks.head = (model.tied_embeddings ? 0 : rows * hidden / tp) + static_cast<double>(count.final_norm);
  blocks.tied = model.tied_embeddings ? rows * hidden / tp : 0;
  return blocks;
}

double stage_parameters(const Stage& stage, const BlockParameters& blocks, bool pipeline) {
  double parameters = stage.layers * blocks.layer;
  if (stage.embedding) parameters += blocks.embedding;
  if (stage.head) parameters += blocks.head + (pipeline ? blocks.tied : 0);
  return parameters;
}

double rank_parameters(const ParallelPlan& plan, const BlockParameters& blocks, int rank) {
  double parameters = 0;
  for (std::size_t i = static_cast<std::size_t>(rank); i < plan.stages.size();
       i += static_cast<std::size_t>(plan.pp))
    parameters += stage_parameters(plan.stages[i], blocks, plan.pp > 1);
  return parameters;
}

}  // namespace tpplan
