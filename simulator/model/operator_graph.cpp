#include "simulator/model/operator_graph.hpp"

#include <algorithm>
#include <cassert>
#include <set>

// h hidden, q and kv widths of queries and of keys or values, f MLP width, a heads, s sequence, t
// tensor-parallel ranks.

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
    const std::int64_t whole = projections + positions + (m_.embedding_norm ? norm_size() : 0);
    VertexId x = add({.kind = OperatorKind::embedding,
                      .name = "embedding",
                      .in = 1,
                      .out = h,
                      .parameters = m_.vocabulary * width + whole,
                      .replicated = whole,
                      .split = Split::vocabulary},
                     {});
    x = m_.parallel_block ? parallel_layer(x) : serial_layer(x);
    if (m_.final_norm) x = norm("final_norm", x, 1);
    const std::int64_t head =
        (m_.tied_embeddings ? 0 : m_.vocabulary * width) + (m_.head_bias ? m_.vocabulary : 0);
    x = add({.kind = OperatorKind::product,
             .name = "head",
             .in = h,
             .out = m_.vocabulary,
             .parameters = head,
             .split = Split::vocabulary},
            {x});
    add({.kind = OperatorKind::loss,
         .name = "loss",
         .in = m_.vocabulary,
         .out = 1,
         .split = Split::vocabulary},
        {x});
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
    return add({.kind = OperatorKind::norm,
                .name = name,
                .in = m_.hidden,
                .out = m_.hidden,
                .parameters = norm_size(),
                .replicated = norm_size(),
                .split = Split::replicate,
                .repeats = repeats},
               {x});
  }
  /// An operator of the layer without parameters.
  VertexId step(OperatorKind kind, const std::string& name, std::int64_t in, std::int64_t out, Split split,
                const std::vector<VertexId>& inputs) {
    return add({.kind = kind, .name = name, .in = in, .out = out, .split = split, .repeats = m_.layers},
               inputs);
  }
  /// A weight that holds `parameters`, and a bias of `bias`. The bias of a row product is added after the sum
  /// over ranks, so every rank has all of it.
  VertexId product(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t parameters,
                   std::int64_t bias, Split split, VertexId x) {
    return add({.kind = OperatorKind::product,
                .name = name,
                .in = in,
                .out = out,
                .parameters = parameters + bias,
                .replicated = split == Split::row         ? bias
                              : split == Split::replicate ? parameters + bias
                                                          : 0,
                .split = split,
                .repeats = m_.layers},
               {x});
  }

  VertexId serial_layer(VertexId input) {
    VertexId x = attention(norm("attention.norm", input, m_.layers));
    if (m_.norms_per_layer == 4) x = norm("attention.post_norm", x, m_.layers);
    input = residual("attention.residual", {input, x});
    x = mlp(norm("mlp.norm", input, m_.layers));
    if (m_.norms_per_layer == 4) x = norm("mlp.post_norm", x, m_.layers);
    return residual("mlp.residual", {input, x});
  }

  VertexId parallel_layer(VertexId input) {
    const VertexId first = norm("attention.norm", input, m_.layers);
    VertexId branch = attention(first);
    if (m_.norms_per_layer == 4) branch = norm("attention.post_norm", branch, m_.layers);
    VertexId other = mlp(m_.norms_per_layer == 1 ? first : norm("mlp.norm", input, m_.layers));
    if (m_.norms_per_layer == 4) other = norm("mlp.post_norm", other, m_.layers);
    return residual("residual", {input, branch, other});
  }

  VertexId residual(const std::string& name, const std::vector<VertexId>& inputs) {
    return step(OperatorKind::residual, name, m_.hidden, m_.hidden, Split::replicate, inputs);
  }

  VertexId attention(VertexId x) {
    const std::int64_t h = m_.hidden, q = m_.q_width(), qkv = q + 2 * m_.kv_width();
    x = product("attention.qkv_proj", h, qkv, h * qkv, m_.qkv_bias ? qkv : 0, Split::column, x);
    if (m_.qk_norm) {
      // One weight of head_dim for the queries, one for the keys, the same for every head.
      x = step(OperatorKind::norm, "attention.qk_norm", qkv, qkv, Split::heads, {x});
      graph_[x].parameters = graph_[x].replicated = 2 * m_.head_dim;
    }
    if (m_.position == PositionKind::rotary)
      x = step(OperatorKind::rotary, "attention.rotary", qkv, qkv, Split::heads, {x});
    x = step(OperatorKind::attention, "attention.core", qkv, q, Split::heads, {x});
    return product("attention.out_proj", q, h, q * h, m_.attention_out_bias ? h : 0, Split::row, x);
  }

  VertexId mlp(VertexId x) {
    const std::int64_t h = m_.hidden, gates = m_.gated_mlp ? 2 : 1;
    std::int64_t f = m_.ffn, held = m_.ffn, copies = 1;
    if (m_.moe) {
      const MoeSpec& moe = *m_.moe;
      f = static_cast<std::int64_t>(moe.top_k) * moe.expert_ffn + moe.shared_ffn;
      held = static_cast<std::int64_t>(moe.experts) * moe.expert_ffn + moe.shared_ffn;
      copies = moe.experts + (moe.shared_ffn > 0 ? 1 : 0);
      x = product("mlp.router", h, moe.experts, h * moe.experts, 0, Split::replicate, x);
      graph_[x].out = h;  // the tokens go on to the experts, with their weights
    }
    x = product(m_.gated_mlp ? "mlp.gate_up_proj" : "mlp.up_proj", h, f * gates, h * held * gates,
                m_.mlp_bias ? held * gates : 0, Split::column, x);
    x = step(OperatorKind::activation, "mlp.activation", f * gates, f, Split::column, {x});
    return product("mlp.down_proj", f, h, held * h, m_.mlp_bias ? h * copies : 0, Split::row, x);
  }

  const ModelSpec& m_;
  OperatorGraph graph_;
};

/// Communication that the split of an operator causes, as words.
std::string communication_of(const Operator& op, int tp, bool sequence_parallel) {
  if (tp == 1) return {};
  switch (op.split) {
    case Split::column:
      return op.kind != OperatorKind::product ? ""
             : sequence_parallel              ? "all-gather before; reduce-scatter of its input's gradient"
                                              : "all-reduce of its input's gradient";
    case Split::row:
      return sequence_parallel ? "reduce-scatter after; all-gather of the gradient" : "all-reduce after";
    case Split::vocabulary:
      if (op.kind == OperatorKind::loss) return "three all-reduces of one number a token";
      if (op.kind == OperatorKind::embedding)
        return sequence_parallel ? "reduce-scatter after; all-gather of the gradient" : "all-reduce after";
      return sequence_parallel ? "all-gather before; reduce-scatter of its input's gradient"
                               : "all-reduce of its input's gradient";
    case Split::replicate:
    case Split::heads:
      return {};
  }
  return {};
}

/// Bytes a token that an operator keeps on one rank: 16-bit inputs of norms, products and activations, and
/// what attention and the loss need. A replicated operator keeps its input whole unless the sequence is
/// split; the input of a column product lies outside the split region too.
double kept_per_token(const Operator& op, const ModelSpec& m, double tp, double outside, int sequence,
                      KeptTensors kept) {
  const double in = static_cast<double>(op.in);
  const double kv_copies = std::max(1.0, tp / m.kv_heads);
  const double q = static_cast<double>(m.q_width()), kv = static_cast<double>(m.kv_width()) * kv_copies;
  switch (op.kind) {
    case OperatorKind::embedding:
      return 8;  // the index
    case OperatorKind::norm:
      return op.split == Split::heads ? 2 * (q + kv) / tp : 2 * in / outside;
    case OperatorKind::product: {
      const double mask = op.split == Split::row && kept.dropout ? static_cast<double>(op.out) : 0;
      return 2 * in / (op.split == Split::row ? tp : outside) + mask / outside;
    }
    case OperatorKind::attention: {
      const double scores = kept.naive_attention ? (kept.dropout ? 5.0 : 2.0) * sequence : 4.0;
      return (2 * (q + 2 * kv) + m.heads * scores) / tp;
    }
    case OperatorKind::activation:
      return 2 * in / tp;
    case OperatorKind::loss:
      return 6 * in / tp;  // 16-bit logits and their fp32 softmax
    case OperatorKind::rotary:
    case OperatorKind::residual:
      return 0;
  }
  return 0;
}

}  // namespace

OperatorGraph operator_graph(const ModelSpec& model) { return Builder(model).build(); }

std::vector<OperatorRow> operator_table(const ModelSpec& model, int tp, bool sequence_parallel,
                                        int micro_batch, int sequence, KeptTensors kept) {
  assert(tp > 0 && model.heads % tp == 0);
  const OperatorGraph graph = operator_graph(model);
  const double tokens = static_cast<double>(micro_batch) * sequence;
  // Each rank has at least one KV head: its projections are repeated on the ranks that share it.
  const double kv_extra = (std::max(1.0, static_cast<double>(tp) / model.kv_heads) - 1) * 2 *
                          static_cast<double>(model.kv_width());
  std::vector<OperatorRow> rows;
  std::set<VertexId> kept_outputs;
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    const Operator& op = graph[vertex];
    const double share = op.split == Split::replicate ? 1 : tp;
    OperatorRow row{.name = op.name, .kind = op.kind, .split = op.split, .repeats = op.repeats};
    const double in = static_cast<double>(op.in);
    double out = static_cast<double>(op.out);
    double parameters = static_cast<double>(op.parameters);
    if (op.name == "attention.qkv_proj") {
      out += kv_extra;
      parameters += kv_extra * (in + (model.qkv_bias ? 1 : 0));
    }
    const double replicated = static_cast<double>(op.replicated);
    row.parameters = (parameters - replicated) / share + replicated;
    if (op.kind == OperatorKind::product)
      row.forward_flops = 2 * tokens * in * (op.name == "mlp.router" ? model.moe->experts : out) / share;
    if (op.kind == OperatorKind::attention)
      row.forward_flops = 4 * tokens * sequence * static_cast<double>(model.q_width()) / share;
    row.activation_bytes = tokens * kept_per_token(op, model, tp, sequence_parallel ? tp : 1, sequence, kept);
    // Branches that read one tensor (parallel blocks, router and experts) keep it once.
    if (op.kind == OperatorKind::norm || op.kind == OperatorKind::product) {
      const VertexId source = boost::source(*boost::in_edges(vertex, graph).first, graph);
      if (!kept_outputs.insert(source).second) row.activation_bytes = 0;
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
