#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/model/model_spec.hpp"

namespace tpplan {

enum class OperatorKind { embedding, norm, product, rotary, attention, activation, residual, loss };
/// How an operator's weight, or its work, is dealt out over tensor-parallel ranks.
enum class Split { replicate, column, row, vocabulary, heads };
inline constexpr std::array<std::string_view, 8> kOperatorKindNames{
    "embedding", "norm", "product", "rotary", "attention", "activation", "residual", "loss"};
inline constexpr std::array<std::string_view, 5> kSplitNames{"replicate", "column", "row", "vocabulary",
                                                             "heads"};

/// One operator, unsharded: features per token in and out, and its parameters.
struct Operator {
  OperatorKind kind = OperatorKind::norm;
  std::string name;  // "attention.qkv_proj"
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t parameters = 0;
  Split split = Split::replicate;  // Megatron's pattern: column then row (Shoeybi et al., arXiv 1909.08053)
  int repeats = 1;                 // how often the model has it: the layers, or 1 for its ends
};

/// A tensor from one operator to another: features per token.
struct Tensor {
  std::int64_t features = 0;
};

using OperatorGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Operator, Tensor>;

/// Embedding, one layer (standing for all of them), final norm, head and loss. Vertices are in topological
/// order. For mixtures of experts the MLP is the dense one of the spec.
[[nodiscard]] OperatorGraph operator_graph(const ModelSpec& model);

/// One operator on one tensor-parallel rank, for one micro-batch.
struct OperatorRow {
  std::string name;
  OperatorKind kind = OperatorKind::norm;
  Split split = Split::replicate;
  int repeats = 1;
  double parameters = 0;           // held by the rank
  double forward_flops = 0;        // model FLOPs of the rank
  double activation_bytes = 0;     // kept for the backward, 16 bit, fused attention
  std::string communication;       // "all-reduce after, forward"; empty without
  double communication_bytes = 0;  // of the message
};

/// `tokens` = samples x sequence of the micro-batch; attention's FLOPs are of the full square.
[[nodiscard]] std::vector<OperatorRow> operator_table(const ModelSpec& model, int tp, bool sequence_parallel,
                                                      int micro_batch, int sequence);

}  // namespace tpplan
