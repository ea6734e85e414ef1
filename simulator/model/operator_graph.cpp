#include "simulator/model/operator_graph.hpp"

#include <algorithm>

namespace tpplan {
namespace {

using VertexId = boost::graph_traits<OperatorGraph>::vertex_descriptor;

class Builder {
 public:
  explicit Builder(const ModelSpec& model) : m_(model) {}

  OperatorGraph build() {
    const std::int64_t h = m_.hidden;
    const std::int64_t width = m_.embedding_width > 0 ? m_.embedding_width : h;
    const std::int64_t projections = width != h ? 2 * width * h : 0;
    const std::int64_t positions = m_.position == PositionKind::learned ? m_.learned_positions * h : 0;
    VertexId x = add({OperatorKind::embedding, "embedding", 1, h,
                      m_.vocabulary * width + projections + positions + (m_.embedding_norm ? norm_size() : 0),
                      Split::vocabulary, 1},
                     {});
    x = attention(x);
    x = mlp(x);
    if (m_.final_norm) x = norm("final_norm", x, 1);
    const std::int64_t head =
        (m_.tied_embeddings ? 0 : m_.vocabulary * width) + (m_.head_bias ? m_.vocabulary : 0);
    x = add({OperatorKind::product, "head", h, m_.vocabulary, head, Split::vocabulary, 1}, {x});
    add({OperatorKind::loss, "loss", m_.vocabulary, 1, 0, Split::vocabulary, 1}, {x});
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::int64_t norm_size() const {
    return m_.norm == NormKind::layer_norm ? 2 * m_.hidden : m_.hidden;
  }

  VertexId add(Operator op, const std::vector<VertexId>& inputs) {
    const VertexId vertex = boost::add_vertex(std::move(op), graph_);
    for (const VertexId input : inputs) boost::add_edge(input, vertex, Tensor{graph_[input].out}, graph_);
    return vertex;
  }
  VertexId norm(const std::string& name, VertexId x, int repeats) {
    return add({OperatorKind::norm, name, m_.hidden, m_.hidden, norm_size(), Split::replicate, repeats}, {x});
  }
  VertexId layer_op(OperatorKind kind, const std::string& name, std::int64_t in, std::int64_t out,
                    std::int64_t parameters, Split split, const std::vector<VertexId>& inputs) {
    return add({kind, name, in, out, parameters, split, m_.layers}, inputs);
  }

  VertexId attention(VertexId input) {
    const std::int64_t h = m_.hidden, q = m_.q_width(), kv = m_.kv_width();
    VertexId x = norm("attention.norm", input, m_.layers);
    x = layer_op(OperatorKind::product, "attention.qkv_proj", h, q + 2 * kv,
                 h * (q + 2 * kv) + (m_.qkv_bias ? q + 2 * kv : 0), Split::column, {x});
    if (m_.qk_norm)
      x = layer_op(OperatorKind::norm, "attention.qk_norm", q + 2 * kv, q + 2 * kv, 2 * m_.head_dim,
                   Split::heads, {x});
    if (m_.position == PositionKind::rotary)
      x = layer_op(OperatorKind::rotary, "attention.rotary", q + 2 * kv, q + 2 * kv, 0, Split::heads, {x});
    x = layer_op(OperatorKind::attention, "attention.core", q + 2 * kv, q, 0, Split::heads, {x});
    x = layer_op(OperatorKind::product, "attention.out_proj", q, h, q * h + (m_.attention_out_bias ? h : 0),
                 Split::row, {x});
    if (m_.norms_per_layer == 4) x = norm("attention.post_norm", x, m_.layers);
    return layer_op(OperatorKind::residual, "attention.residual", h, h, 0, Split::replicate, {input, x});
  }

  VertexId mlp(VertexId input) {
    const std::int64_t h = m_.hidden, f = m_.ffn, up = m_.gated_mlp ? 2 * f : f;
    VertexId x = m_.norms_per_layer > 1 ? norm("mlp.norm", input, m_.layers) : input;
    x = layer_op(OperatorKind::product, m_.gated_mlp ? "mlp.gate_up_proj" : "mlp.up_proj", h, up,
                 h * up + (m_.mlp_bias ? up : 0), Split::column, {x});
    x = layer_op(OperatorKind::activation, "mlp.activation", up, f, 0, Split::column, {x});
    x = layer_op(OperatorKind::product, "mlp.down_proj", f, h, f * h + (m_.mlp_bias ? h : 0), Split::row,
                 {x});
    if (m_.norms_per_layer == 4) x = norm("mlp.post_norm", x, m_.layers);
    return layer_op(OperatorKind::residual, "mlp.residual", h, h, 0, Split::replicate, {input, x});
  }

  const ModelSpec& m_;
  OperatorGraph graph_;
};

/// Communication that the split of an operator causes, as words and as the message's share of (T, h)
/// activations.
std::string communication_of(const Operator& op, int tp, bool sequence_parallel) {
  if (tp == 1) return {};
  const bool end = op.kind == OperatorKind::embedding;
  switch (op.split) {
    case Split::column:
      return op.kind != OperatorKind::product ? ""
             : sequence_parallel              ? "all-gather before; reduce-scatter of its input's gradient"
                                              : "all-reduce of its input's gradient";
    case Split::row:
      return sequence_parallel ? "reduce-scatter after; all-gather of the gradient" : "all-reduce after";
    case Split::vocabulary:
      if (op.kind == OperatorKind::loss) return "three all-reduces of one number a token";
      if (end)
        return sequence_parallel ? "reduce-scatter after; all-gather of the gradient" : "all-reduce after";
      return sequence_parallel ? "all-gather before; reduce-scatter of its input's gradient"
                               : "all-reduce of its input's gradient";
    case Split::replicate:
    case Split::heads:
      return {};
  }
  return {};
}

}  // namespace

OperatorGraph operator_graph(const ModelSpec& model) { return Builder(model).build(); }

std::vector<OperatorRow> operator_table(const ModelSpec& model, int tp, bool sequence_parallel,
                                        int micro_batch, int sequence) {
  const OperatorGraph graph = operator_graph(model);
  const double tokens = static_cast<double>(micro_batch) * sequence;
  std::vector<OperatorRow> rows;
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    const Operator& op = graph[vertex];
    const bool shared = op.split != Split::replicate;
    const double share = shared ? tp : 1;
    OperatorRow row{.name = op.name, .kind = op.kind, .split = op.split, .repeats = op.repeats};
    row.parameters = static_cast<double>(op.parameters) / share;
    const double in = static_cast<double>(op.in), out = static_cast<double>(op.out);
    if (op.kind == OperatorKind::product) row.forward_flops = 2 * tokens * in * out / share;
    if (op.kind == OperatorKind::attention)
      row.forward_flops = 4 * tokens * sequence * static_cast<double>(model.q_width()) / share;
    // Kept: inputs of norms, products, activation and attention; a split operator keeps its share, a
    // replicated one all of it unless the sequence is split. The input of a column product lies outside the
    // split region.
    const double outside = sequence_parallel ? tp : 1;
    switch (op.kind) {
      case OperatorKind::norm:
        row.activation_bytes = tokens * in * 2 / (op.split == Split::heads ? tp : outside);
        break;
      case OperatorKind::product:
        row.activation_bytes = tokens * in * 2 / (op.split == Split::row ? tp : outside);
        break;
      case OperatorKind::attention:
        row.activation_bytes = tokens * (in * 2 + model.heads * 4.0) / tp;
        break;
      case OperatorKind::activation:
        row.activation_bytes = tokens * in * 2 / tp;
        break;
      case OperatorKind::loss:
        row.activation_bytes = tokens * in * 6 / tp;
        break;
      case OperatorKind::embedding:
        row.activation_bytes = tokens * 8;
        break;
      case OperatorKind::rotary:
      case OperatorKind::residual:
        break;
    }
    row.communication = communication_of(op, tp, sequence_parallel);
    if (!row.communication.empty())
      row.communication_bytes =
          op.kind == OperatorKind::loss ? tokens * 4 : tokens * static_cast<double>(model.hidden) * 2;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tpplan
