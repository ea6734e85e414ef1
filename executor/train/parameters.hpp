#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/backend/tensor.hpp"
#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

/// What a parameter does in its block. Weights of products are stored [out][in].
enum class Role : std::uint8_t {
  token_embedding,     // (V / tp, h)
  position_embedding,  // (positions, h)
  norm1_weight,        // (h)
  norm1_bias,
  qkv_weight,  // ((q + 2 kv) / tp, h): queries, keys, values
  qkv_bias,
  q_norm,  // (head_dim)
  k_norm,
  out_weight,  // (h, q / tp)
  out_bias,    // (h)
  norm2_weight,
  norm2_bias,
  up_weight,  // (f / tp, h), or gate and up: (2 f / tp, h)
  up_bias,
  down_weight,  // (h, f / tp)
  down_bias,
  final_norm_weight,
  final_norm_bias,
  head_weight,  // (V / tp, h)
};
inline constexpr std::size_t kRoles = 19;

/// Rows of a parameter that are a block of a published tensor, with all columns of the parameter.
struct Part {
  std::string tensor;                         // its name in a Hugging Face checkpoint
  std::int64_t row = 0, rows = 0;             // of the parameter
  std::int64_t tensor_rows = 0;               // of the published tensor as [out][in]; of a vector its length
  std::int64_t tensor_cols = 0;               // 0: a vector
  std::int64_t first_row = 0, first_col = 0;  // of the block in the published tensor
  bool transposed = false;                    // the file holds [in][out]
  bool counts = true;  // exactly one of the tensor- and pipeline-parallel ranks that hold it has true
};

struct Parameter {
  Role role = Role::token_embedding;
  std::string name;  // "layers.3.qkv.weight"
  std::int64_t rows = 0, cols = 0, stride = 0;
  bool decay = false;           // weight decay applies: matrices
  bool tensor_partial = false;  // each tensor rank has a part of the gradient, to be summed over them
  std::vector<Part> parts;
  std::int64_t offset = 0;  // in the memory of its unit, in elements

  [[nodiscard]] std::int64_t elements() const { return rows * stride; }
};

enum class BlockKind : std::uint8_t { embedding, layer, head };

/// The parameters of one block as one tensor-parallel rank holds them.
struct BlockParameterList {
  BlockKind kind = BlockKind::layer;
  int layer = -1;
  std::vector<Parameter> parameters;
};

/// `tied_copy`: the head holds its own copy of a tied embedding, because the first stage is elsewhere.
[[nodiscard]] BlockParameterList parameters_of(const ModelSpec& model, const ParallelPlan& plan,
                                               BlockKind kind, int layer, int tp_rank, bool tied_copy);

/// Why the executor cannot train this model, in words; empty when it can.
[[nodiscard]] std::string why_not_trainable(const ModelSpec& model);

/// Whether checkpoints of the model have the names of GPT2LMHeadModel; otherwise those of LlamaForCausalLM.
[[nodiscard]] bool has_gpt2_names(const ModelSpec& model);

/// Shape of a published tensor and its name, for every tensor of the model.
struct PublishedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // as in the file
};
[[nodiscard]] std::vector<PublishedTensor> published_tensors(const ModelSpec& model);

}  // namespace tpplan
