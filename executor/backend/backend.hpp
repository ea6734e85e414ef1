#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "executor/backend/tensor.hpp"
#include "simulator/model/model_spec.hpp"

namespace tpplan {

/// Which elements dropout sets to zero: a function of the seed and of the element's place in the whole batch,
/// so that every layout drops the same. Element (r, c) of the tensor has the counter (first_row + r) * width
/// + first_col + c.
struct DropoutKey {
  std::uint64_t seed = 0;  // of this step, layer and place in the layer
  float probability = 0;   // 0: everything is kept
  std::int64_t first_row = 0, first_col = 0;
  std::int64_t width = 0;
};

/// Causal attention of `samples` samples of `sequence` tokens. Row sample * sequence + t of q, k, v and out
/// holds token t; columns are heads x head_dim, query head h reads key head h / (heads / kv_heads).
struct AttentionArguments {
  int samples = 1, sequence = 1, heads = 1, kv_heads = 1, head_dim = 1;
  Tensor q, k, v;  // (samples * sequence, heads * head_dim) and twice (.., kv_heads * head_dim)
  Tensor lse;      // f32 (samples * heads, sequence): log of the sum of exponentials of each query
  float scale = 1;
  // Dropout of the probabilities: element (query row, key) of head h of sample b has the row
  // ((first_sample + b) * all_heads + first_head + h) * sequence + t and the column of the key.
  DropoutKey dropout;
  std::int64_t first_sample = 0;
  int first_head = 0, all_heads = 1;
};

struct AdamW {
  float learning_rate = 0;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0;    // decoupled: w -= lr * decay * w
  float correction1 = 1;     // 1 - beta1^t
  float correction2 = 1;     // 1 - beta2^t
  float gradient_scale = 1;  // clipping and loss scale
};

/// A queue of work that runs in order beside the compute lane. On a CPU it is a thread, on a GPU a stream.
class Lane {
 public:
  virtual ~Lane() = default;
  /// Number of a piece of work of this lane, in the order of submission, from 1.
  using Ticket = std::int64_t;
  virtual Ticket submit(std::function<void()> work) = 0;
  /// Returns when that piece is done; throws what the lane's work threw.
  virtual void wait(Ticket ticket) = 0;
  [[nodiscard]] virtual bool done(Ticket ticket) = 0;
};

/// Memory and kernels of one device, as one rank uses it. Kernels run in the order of the calls. Outputs come
/// first. Shapes are checked by assertions: a wrong one is a bug of the caller.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// At least 64-byte aligned. Throws SystemError when there is no more.
  [[nodiscard]] virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory, std::int64_t bytes) = 0;
  virtual void upload(void* to, const void* host, std::int64_t bytes) = 0;
  virtual void download(void* host, const void* from, std::int64_t bytes) = 0;
  /// Waits until every kernel of the compute lane is done.
  virtual void synchronise() = 0;
  [[nodiscard]] virtual std::unique_ptr<Lane> make_lane(const std::string& name) = 0;

  /// c = op(a) op(b) + beta c, with c in any format; beta is 0 or 1.
  virtual void matmul(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta) = 0;
  /// y (M, N) = x (M, K) w (N, K)^T + bias (N), bias.data may be null.
  virtual void linear(Tensor y, Tensor x, Tensor w, Tensor bias) = 0;

  virtual void fill(Tensor x, float value) = 0;
  /// Copies with conversion between formats.
  virtual void copy(Tensor to, Tensor from) = 0;
  virtual void add(Tensor to, Tensor from) = 0;
  /// x (M, N) += bias (N).
  virtual void add_bias(Tensor x, Tensor bias) = 0;
  /// gradient f32 (N) += column sums of dy (M, N).
  virtual void add_column_sums(Tensor gradient, Tensor dy) = 0;

  /// y = norm(x) * weight + bias over each row; statistics f32 (2, M): mean and 1 / deviation. RMSNorm has
  /// mean 0 and no bias.
  virtual void norm(NormKind kind, Tensor y, Tensor statistics, Tensor x, Tensor weight, Tensor bias,
                    float epsilon) = 0;
  /// dx = gradient of x, added to `residual` when that has data; weight and bias gradients are added to.
  virtual void norm_backward(NormKind kind, Tensor dx, Tensor residual, Tensor weight_gradient,
                             Tensor bias_gradient, Tensor dy, Tensor x, Tensor statistics, Tensor weight) = 0;

  /// y (M, F) = f(x) or, gated, f(x[:, :F]) * x[:, F:2F]. gelu is the tanh form.
  virtual void activation(ActivationKind kind, bool gated, Tensor y, Tensor x) = 0;
  /// dx may be x.
  virtual void activation_backward(ActivationKind kind, bool gated, Tensor dx, Tensor dy, Tensor x) = 0;

  /// out = residual + dropout(x); out may be residual or x.
  virtual void dropout_add(Tensor out, Tensor residual, Tensor x, const DropoutKey& key) = 0;
  /// x = dropout(x): also its own backward.
  virtual void dropout(Tensor out, Tensor x, const DropoutKey& key) = 0;

  /// Rotates pairs (i, i + head_dim / 2) of each head by position * theta^(-2 i / head_dim), the position of
  /// row r being r % sequence; backwards when `inverse`.
  virtual void rotate(Tensor x, int heads, int head_dim, int sequence, double theta, bool inverse) = 0;
  virtual void attention(Tensor out, const AttentionArguments& arguments) = 0;
  /// Gradients of q, k and v, written.
  virtual void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor out, Tensor dout,
                                  const AttentionArguments& arguments) = 0;

  /// y (M, h) = rows of `table` for tokens in [first, first + table.rows), zero for others.
  virtual void embed(Tensor y, const std::int32_t* tokens, Tensor table, std::int64_t first) = 0;
  /// gradient f32 += rows of dy at their tokens.
  virtual void embed_backward(Tensor gradient, const std::int32_t* tokens, Tensor dy, std::int64_t first) = 0;
  /// y (M, h) += positions[(first_row + r) % sequence].
  virtual void add_positions(Tensor y, Tensor positions, std::int64_t first_row, int sequence) = 0;
  virtual void positions_backward(Tensor gradient, Tensor dy, std::int64_t first_row, int sequence) = 0;

  /// Of each row of logits (M, V), the first `valid` columns counting: maximum, sum of exp(logit - maximum)
  /// and the logit of the target, where target - first is a column; else 0. Vectors f32 (M).
  virtual void softmax_statistics(Tensor maximum, Tensor sum, Tensor picked, Tensor logits,
                                  const std::int32_t* targets, std::int64_t first, std::int64_t valid) = 0;
  /// sum *= exp(own - all): own maxima and those over all ranks.
  virtual void rescale_sums(Tensor sum, Tensor own, Tensor all) = 0;
  /// logits = (softmax - one at the target) * scale; columns from `valid` on become 0.
  virtual void softmax_gradient(Tensor logits, Tensor maximum, Tensor sum, const std::int32_t* targets,
                                std::int64_t first, std::int64_t valid, float scale) = 0;
  /// Sum over rows of log(sum) + maximum - picked, on the host.
  [[nodiscard]] virtual double loss_sum(Tensor maximum, Tensor sum, Tensor picked) = 0;

  /// One step on f32 vectors of the same length; `copy` with data gets the new weights in its format.
  virtual void adamw(Tensor weights, Tensor copy, Tensor first, Tensor second, Tensor gradient,
                     const AdamW& step) = 0;
  /// w = w (1 - lr decay) - lr gradient_scale gradient; the rest of `step` is not used.
  virtual void sgd(Tensor weights, Tensor copy, Tensor gradient, const AdamW& step) = 0;
  /// On the host. Not finite when x is not.
  [[nodiscard]] virtual double sum_of_squares(Tensor x) = 0;
};

}  // namespace tpplan
