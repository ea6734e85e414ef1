// Compiled once for each instruction set, with TPPLAN_KERNELS naming the function that makes the backend.
// Everything else has internal linkage (vector_math.hpp says why).

#include "executor/cpu/kernels.hpp"

#include "executor/cpu/attention.hpp"
#include "executor/cpu/cpu_backend.hpp"
#include "executor/cpu/elementwise.hpp"
#include "executor/cpu/loss.hpp"
#include "executor/cpu/norms.hpp"

namespace tpplan {
namespace {

/// T: element type of the first named tensor.
#define TPPLAN_TYPED(tensor, call) with_type((tensor).type, [&]<class T>(T*) { call; })

class Kernels final : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  [[nodiscard]] std::string name() const override { return TPPLAN_KERNELS_NAME; }

  void fill(Tensor x, float value) override { TPPLAN_TYPED(x, fill_with<T>(x, value)); }
  void copy(Tensor to, Tensor from) override {
    TPPLAN_TYPED(to, with_type(from.type, [&]<class U>(U*) { convert<T, U>(to, from); }));
  }
  void add(Tensor to, Tensor from) override {
    TPPLAN_TYPED(to, with_type(from.type, [&]<class U>(U*) { add_to<T, U>(to, from); }));
  }
  void add_bias(Tensor x, Tensor bias) override { TPPLAN_TYPED(x, add_bias_to<T>(x, bias)); }
  void add_column_sums(Tensor gradient, Tensor dy) override {
    TPPLAN_TYPED(dy, column_sums<T>(gradient, dy));
  }

  void norm(NormKind kind, Tensor y, Tensor statistics, Tensor x, Tensor weight, Tensor bias,
            float epsilon) override {
    TPPLAN_TYPED(x, norm_forward<T>(kind, y, statistics, x, weight, bias, epsilon));
  }
  void norm_backward(NormKind kind, Tensor dx, Tensor residual, Tensor weight_gradient, Tensor bias_gradient,
                     Tensor dy, Tensor x, Tensor statistics, Tensor weight) override {
    TPPLAN_TYPED(x, norm_rows_backward<T>(kind, dx, weight_gradient, bias_gradient, residual, dy, x,
                                          statistics, weight));
  }

  void activation(ActivationKind kind, bool gated, Tensor y, Tensor x) override {
    TPPLAN_TYPED(x, activate<T>(kind, gated, y, x));
  }
  void activation_backward(ActivationKind kind, bool gated, Tensor dx, Tensor dy, Tensor x) override {
    TPPLAN_TYPED(x, activate_backward<T>(kind, gated, dx, dy, x));
  }

  void dropout_add(Tensor out, Tensor residual, Tensor x, const DropoutKey& key) override {
    TPPLAN_TYPED(x, add_dropped<T>(out, residual, x, key));
  }
  void dropout(Tensor out, Tensor x, const DropoutKey& key) override {
    TPPLAN_TYPED(x, drop<T>(out, x, key));
  }

  void rotate(Tensor x, int heads, int head_dim, int sequence, double theta, bool inverse) override {
    TPPLAN_TYPED(x, rotate_pairs<T>(x, heads, head_dim, sequence, theta, inverse));
  }
  void attention(Tensor out, const AttentionArguments& arguments) override {
    TPPLAN_TYPED(out, attention_forward<T>(out, arguments));
  }
  void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor out, Tensor dout,
                          const AttentionArguments& arguments) override {
    TPPLAN_TYPED(out, tpplan::attention_backward<T>(dq, dk, dv, out, dout, arguments));
  }

  void embed(Tensor y, const std::int32_t* tokens, Tensor table, std::int64_t first) override {
    TPPLAN_TYPED(y, embed_rows<T>(y, tokens, table, first));
  }
  void embed_backward(Tensor gradient, const std::int32_t* tokens, Tensor dy, std::int64_t first) override {
    TPPLAN_TYPED(dy, embed_gradient<T>(gradient, tokens, dy, first));
  }
  void add_positions(Tensor y, Tensor positions, std::int64_t first_row, int sequence) override {
    TPPLAN_TYPED(y, add_position_rows<T>(y, positions, first_row, sequence));
  }
  void positions_backward(Tensor gradient, Tensor dy, std::int64_t first_row, int sequence) override {
    TPPLAN_TYPED(dy, position_gradient<T>(gradient, dy, first_row, sequence));
  }

  void softmax_statistics(Tensor maximum, Tensor sum, Tensor picked, Tensor logits,
                          const std::int32_t* targets, std::int64_t first, std::int64_t valid) override {
    TPPLAN_TYPED(logits, logit_statistics<T>(maximum, sum, picked, logits, targets, first, valid));
  }
  void rescale_sums(Tensor sum, Tensor own, Tensor all) override { rescale(sum, own, all); }
  void softmax_gradient(Tensor logits, Tensor maximum, Tensor sum, const std::int32_t* targets,
                        std::int64_t first, std::int64_t valid, float scale) override {
    TPPLAN_TYPED(logits, logit_gradient<T>(logits, maximum, sum, targets, first, valid, scale));
  }
  [[nodiscard]] double loss_sum(Tensor maximum, Tensor sum, Tensor picked) override {
    return sum_of_losses(maximum, sum, picked);
  }

  void adamw(Tensor weights, Tensor copy, Tensor first, Tensor second, Tensor gradient,
             const AdamW& step) override {
    TPPLAN_TYPED(copy, adamw_step<T>(weights, copy, first, second, gradient, step));
  }
  void sgd(Tensor weights, Tensor copy, Tensor gradient, const AdamW& step) override {
    TPPLAN_TYPED(copy, sgd_step<T>(weights, copy, gradient, step));
  }
  [[nodiscard]] double sum_of_squares(Tensor x) override { return squares(x); }
};

#undef TPPLAN_TYPED

}  // namespace

Backend* TPPLAN_KERNELS(int threads) { return new Kernels(threads); }

}  // namespace tpplan
