#pragma once

#include "simulator/cost/cost_model.hpp"

namespace tpplan {

/// Closed formulas over a device and its links: a roofline with the shape losses of tiled products, and
/// alpha-beta collectives. docs/cost-model.md derives each.
class AnalyticCostModel final : public CostModel {
 public:
  explicit AnalyticCostModel(const DeviceSpec& device,
                             CollectiveAlgorithm forced = CollectiveAlgorithm::automatic,
                             const KernelConstants& constants = {});

  [[nodiscard]] Seconds product(const ProductShape& shape) const override;
  [[nodiscard]] Seconds attention(const AttentionShape& shape) const override;
  [[nodiscard]] Seconds streaming(Bytes bytes, double kernels) const override;
  [[nodiscard]] Seconds collective(Collective what, Bytes bytes, const GroupPath& path) const override;

 private:
  [[nodiscard]] std::optional<Seconds> measured_collective(Collective what, Bytes bytes,
                                                           const GroupPath& path) const;

  DeviceSpec device_;
  CollectiveAlgorithm forced_;
};

/// The rate of a shape from measured ones of its precision: the measured rate itself, or the mean of the
/// logarithms of all weighted by 1 / d^4, d being the distance of (ln m, ln n, ln k). Zero when none is
/// known.
[[nodiscard]] FlopsPerSecond interpolated_rate(const std::vector<MeasuredProduct>& table,
                                               const ProductShape& shape);

/// Share of the sustained rate that a tiled product reaches: best tile's wave quantisation over the
/// multiprocessors, edge tiles, and K / (K + half_k).
[[nodiscard]] double product_efficiency(const ProductShape& shape, int multiprocessors,
                                        const KernelConstants& constants);

}  // namespace tpplan
