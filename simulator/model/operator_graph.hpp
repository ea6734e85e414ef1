#pragma once

#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <string>
#include <string_view>
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
  std::int64_t replicated =
      0;  // of the parameters: held whole by every rank (row bias, norm of heads, positions)
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
/// order; the parameters times the repeats are those of count_parameters. In a parallel block both branches
/// read the block's input, or its one norm. Experts are one pair of products as wide as what a token visits,
/// with the parameters of all; leading dense layers are taken as expert layers.
[[nodiscard]] OperatorGraph operator_graph(const ModelSpec& model);

/// What an implementation of the layer keeps for its backward, beside the tensors between operators.
struct KeptTensors {
  /// Scores and softmax are written out, s^2 a head: 2 a s bytes a token of softmax output. Otherwise fused
  /// attention, which keeps one fp32 log-sum-exp a head.
  bool naive_attention = false;
  /// A byte an element for the masks after the two row products; with naive attention also a mask and the
  /// dropped probabilities, 3 a s bytes a token. With both, a layer keeps s b h (34 + 5 a s / h) bytes at
  /// tensor parallel 1: equation 1 of Korthikanti et al., arXiv 2205.05198. A fused kernel draws its mask
  /// again.
  bool dropout = false;
};

/// One operator on one tensor-parallel rank, for one micro-batch.
struct OperatorRow {
  std::string name;
  OperatorKind kind = OperatorKind::norm;
  Split split = Split::replicate;
  int repeats = 1;
  double parameters = 0;           // held by the rank; KV projections repeated when tp exceeds the KV heads
  double forward_flops = 0;        // model FLOPs of the rank
  double activation_bytes = 0;     // kept for the backward, 16 bit
  std::string communication;       // "all-reduce after; ..."; empty without
  double communication_bytes = 0;  // of the message
};

/// `tokens` = samples x sequence of the micro-batch; attention's FLOPs are of the full square. `tp` divides
/// the heads. The vocabulary is not padded.
[[nodiscard]] std::vector<OperatorRow> operator_table(const ModelSpec& model, int tp, bool sequence_parallel,
                                                      int micro_batch, int sequence, KeptTensors kept = {});

}  // namespace tpplan
