#include "simulator/model/model_spec.hpp"

namespace tpplan {

// h hidden, q and kv widths of queries and of keys or values, f MLP width, V vocabulary, s sequence, L
// layers.
ParameterCount count_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden, q = m.q_width(), kv = m.kv_width();
  const std::int64_t norm = m.norm == NormKind::layer_norm ? 2 * h : h;  // weight and bias, or weight alone
  ParameterCount count;
  count.layers = m.layers;
  const std::int64_t width = m.embedding_width > 0 ? m.embedding_width : h;
  count.token_embedding = m.vocabulary * width;
  if (width != h) count.token_embedding += 2 * width * h;  // projections in and out
  if (m.position == PositionKind::learned) count.position_embedding = m.learned_positions * h;
  if (m.embedding_norm) count.position_embedding += norm;

  count.attention_per_layer = h * (q + 2 * kv) + q * h;
  if (m.qkv_bias) count.attention_per_layer += q + 2 * kv;
  if (m.attention_out_bias) count.attention_per_layer += h;
  const auto mlp = [&](std::int64_t ffn) {
    std::int64_t parameters = h * ffn * (m.gated_mlp ? 3 : 2);
    if (m.mlp_bias) parameters += ffn * (m.gated_mlp ? 2 : 1) + h;
    return parameters;
  };
  count.mlp_per_layer = mlp(m.ffn);
  if (m.moe && m.layers > 0) {
    const MoeSpec& moe = *m.moe;
    const std::int64_t expert_layer =
        moe.experts * mlp(moe.expert_ffn) + h * moe.experts + (moe.shared_ffn > 0 ? mlp(moe.shared_ffn) : 0);
    count.mlp_per_layer =
        (moe.first_dense_layers * mlp(m.ffn) + (m.layers - moe.first_dense_layers) * expert_layer) / m.layers;
  }
  count.norms_per_layer = m.norms_per_layer * norm + (m.qk_norm ? 2 * m.head_dim : 0);
  count.final_norm = m.final_norm ? norm : 0;
  count.head = (m.tied_embeddings ? 0 : m.vocabulary * width) + (m.head_bias ? m.vocabulary : 0);
  return count;
}

double model_flops_per_token(const ModelSpec& m, int sequence, bool causal) {
  const double h = static_cast<double>(m.hidden), layers = m.layers;
  const double q = static_cast<double>(m.q_width()), kv = static_cast<double>(m.kv_width());
  const double attention = h * (q + 2 * kv) + q * h;
  const double matrices = m.gated_mlp ? 3 : 2;
  double mlps = layers * h * static_cast<double>(m.ffn) * matrices;
  if (m.moe) {
    const double dense = m.moe->first_dense_layers;
    const double active = static_cast<double>(m.moe->top_k) * m.moe->expert_ffn + m.moe->shared_ffn;
    mlps = dense * h * static_cast<double>(m.ffn) * matrices +
           (layers - dense) * h * (active * matrices + m.moe->experts);
  }
  const double scores = 12.0 * layers * q * sequence * (causal ? 0.5 : 1);
  return 6 * (layers * attention + mlps + static_cast<double>(m.vocabulary) * h) + scores;
}

}  // namespace tpplan
