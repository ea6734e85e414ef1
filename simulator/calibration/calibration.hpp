#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "simulator/cost/analytic_cost_model.hpp"

namespace tpplan {

/// What a calibration multiplies: the time of each kind of work, measured over predicted.
enum class Factor : std::uint8_t {
  products,
  attention,
  streaming,
  optimizer,
  tensor_parallel,
  tensor_network,  // the same between nodes
  data_parallel,
  data_network,
  transfers
};
inline constexpr std::array<std::string_view, 9> kFactorNames{
    "products",       "attention",     "streaming",    "optimizer", "tensor_parallel",
    "tensor_network", "data_parallel", "data_network", "transfers"};
using Factors = std::array<double, kFactorNames.size()>;
inline constexpr Factors kNoFactors{1, 1, 1, 1, 1, 1, 1, 1, 1};

/// Corrections of the cost model for one machine and this executor, with where they come from.
struct Calibration {
  std::string name;
  std::string source;  // machine, runs, date
  Factors factors = kNoFactors;
  std::array<bool, kFactorNames.size()> identified{};  // false: the runs did not tell it, 1 was kept
  double overlap_slowdown = 0.08;                      // of compute beside a collective
  Seconds fixed_per_step;                              // what a step takes that no task explains
  int tasks = 0, runs = 0;                             // that were fitted
  double task_error = 0;                               // median of |predicted / measured - 1| over tasks
  double step_error = 0;                               // the same over the runs' steps
  bool operator==(const Calibration&) const = default;
};

[[nodiscard]] std::string calibration_to_yaml(const Calibration& calibration);
[[nodiscard]] Calibration read_calibration(const std::filesystem::path& file);

/// The analytic model with a calibration's factors.
class CalibratedCostModel final : public CostModel {
 public:
  CalibratedCostModel(const DeviceSpec& device, CollectiveAlgorithm forced, const Calibration& calibration);

  [[nodiscard]] Seconds product(const ProductShape& shape) const override;
  [[nodiscard]] Seconds attention(const AttentionShape& shape) const override;
  [[nodiscard]] Seconds streaming(Bytes bytes, double kernels) const override;
  [[nodiscard]] Seconds collective(Collective what, Bytes bytes, const GroupPath& path) const override;

 private:
  [[nodiscard]] double factor(Factor f) const { return factors_[static_cast<std::size_t>(f)]; }
  AnalyticCostModel plain_;
  Factors factors_;
};

}  // namespace tpplan
