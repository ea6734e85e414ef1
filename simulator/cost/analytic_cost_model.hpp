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
  DeviceSpec device_;
  CollectiveAlgorithm forced_;
};

/// Share of the sustained rate that a tiled product reaches: best tile's wave quantisation over the
/// multiprocessors, edge tiles, and K / (K + half_k).
[[nodiscard]] double product_efficiency(const ProductShape& shape, int multiprocessors,
                                        const KernelConstants& constants);

}  // namespace tpplan
