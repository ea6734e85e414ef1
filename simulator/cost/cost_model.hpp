#pragma once

#include "simulator/cost/constants.hpp"
#include "simulator/topology/topology.hpp"
#include "simulator/units/precision.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

enum class CollectiveAlgorithm { automatic, ring, tree, hierarchical, nvls };
inline constexpr std::array<std::string_view, 5> kAlgorithmNames{"auto", "ring", "tree", "hierarchical",
                                                                 "nvls"};

/// C (m, n) = A (m, k) B (k, n), `batch` times.
struct ProductShape {
  double m = 0, n = 0, k = 0;
  double batch = 1;
  double extra_bytes = 0;  // moved besides A, B and C: an fp32 accumulator, a bias
  Precision precision = Precision::bf16;
  bool aligned = true;  // rows of 16-bit operands are multiples of 8 elements
};

/// Fused attention of one layer on one rank: b samples, a query heads, d head size, s tokens.
struct AttentionShape {
  double samples = 1, heads = 1, head_dim = 128, sequence = 2048;
  AttentionKernel kernel = AttentionKernel::flash2;
  bool backward = false;
  Precision precision = Precision::bf16;
};

/// Seconds of one kernel or one collective. The seam between formulas and measurements: tests put constants
/// behind it, a calibration puts fitted values.
class CostModel {
 public:
  explicit CostModel(const KernelConstants& constants) : constants_(constants) {}
  virtual ~CostModel() = default;
  CostModel(const CostModel&) = default;
  CostModel& operator=(const CostModel&) = default;

  [[nodiscard]] virtual Seconds product(const ProductShape& shape) const = 0;
  [[nodiscard]] virtual Seconds attention(const AttentionShape& shape) const = 0;
  /// A kernel limited by memory: `bytes` read and written, in `kernels` launches.
  [[nodiscard]] virtual Seconds streaming(Bytes bytes, double kernels) const = 0;
  /// `bytes` is the size of the whole message: what all-reduce reduces, what all-gather gathers on each rank,
  /// what reduce-scatter starts from, what a send sends.
  [[nodiscard]] virtual Seconds collective(Collective what, Bytes bytes, const GroupPath& path) const = 0;

  [[nodiscard]] const KernelConstants& constants() const { return constants_; }

 private:
  KernelConstants constants_;
};

}  // namespace tpplan
