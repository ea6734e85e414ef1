#include "simulator/cost/analytic_cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/cost/collectives.hpp"

namespace tpplan {

double product_efficiency(const ProductShape& shape, int multiprocessors, const KernelConstants& constants) {
  struct Tile {
    double m, n, rate;
  };
  const std::array tiles{Tile{128, 256, 1}, Tile{128, 128, constants.tile_128x128},
                         Tile{64, 128, constants.tile_64x128}};
  double best = 0;
  for (const Tile& tile : tiles) {
    const double rows = std::ceil(shape.m / tile.m);
    const double columns = std::ceil(shape.n / tile.n);
    const double waves = rows * columns * shape.batch / multiprocessors;
    const double quantised = waves > constants.quantised_waves ? 1 : waves / std::ceil(waves);
    const double filled = (shape.m * shape.n) / (rows * tile.m * columns * tile.n);
    best = std::max(best, tile.rate * quantised * filled);
  }
  return best * shape.k / (shape.k + constants.product_half_k);
}

namespace {

KernelConstants with_device(KernelConstants constants, const DeviceSpec& device) {
  if (device.collective_base) constants.collective_base = *device.collective_base;
  return constants;
}

/// FLOPs of causal attention: half of the two products of 2 b a s^2 d each, and of five of them backward.
double attention_flops(double samples, double heads, double sequence, double head_dim,
                       double backward_factor) {
  return 2 * samples * heads * sequence * sequence * head_dim * backward_factor;
}

/// Time of a shape from measured ones, as interpolated_rate does it: over (ln b a, ln s, ln d).
Seconds interpolated_attention(const std::vector<MeasuredAttentionRate>& table, const AttentionShape& shape) {
  const auto flops = [](const auto& s) {
    return attention_flops(s.samples, s.heads, s.sequence, s.head_dim, 1);
  };
  double weights = 0, sum = 0;
  for (const MeasuredAttentionRate& measured : table) {
    if (measured.precision != shape.precision || measured.backward != shape.backward) continue;
    const double b = std::log(measured.samples * measured.heads / (shape.samples * shape.heads)),
                 s = std::log(measured.sequence / shape.sequence),
                 d = std::log(measured.head_dim / shape.head_dim);
    const double square = b * b + s * s + d * d;
    if (square == 0) return measured.time;
    weights += 1 / (square * square);
    sum += std::log(flops(measured) / measured.time.value()) / (square * square);
  }
  return Seconds{weights > 0 ? flops(shape) / std::exp(sum / weights) : 0};
}

}  // namespace

AnalyticCostModel::AnalyticCostModel(const DeviceSpec& device, CollectiveAlgorithm forced,
                                     const KernelConstants& constants)
    : CostModel(with_device(constants, device)), device_(device), forced_(forced) {}

FlopsPerSecond interpolated_rate(const std::vector<MeasuredProduct>& table, const ProductShape& shape) {
  double weights = 0, sum = 0;
  for (const MeasuredProduct& measured : table) {
    if (measured.precision != shape.precision) continue;
    const double m = std::log(measured.m / shape.m), n = std::log(measured.n / shape.n),
                 k = std::log(measured.k / shape.k);
    const double square = m * m + n * n + k * k;
    if (square == 0) return measured.rate;
    weights += 1 / (square * square);
    sum += std::log(measured.rate.value()) / (square * square);
  }
  return FlopsPerSecond{weights > 0 ? std::exp(sum / weights) : 0};
}

Seconds AnalyticCostModel::product(const ProductShape& shape) const {
  if (const FlopsPerSecond rate = interpolated_rate(device_.products, shape); rate.value() > 0)
    return Flops{2 * shape.m * shape.n * shape.k * shape.batch} / rate + device_.kernel_floor;
  const double efficiency = product_efficiency(shape, device_.multiprocessors, constants()) *
                            (shape.aligned ? 1 : constants().unaligned_rate);
  const Seconds compute = Flops{2 * shape.m * shape.n * shape.k * shape.batch} /
                          (device_.sustained_rate(shape.precision) * efficiency);
  const double elements = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n;
  const Seconds memory = Bytes{elements * shape.batch * element_bytes(shape.precision) + shape.extra_bytes} /
                         (device_.memory_bandwidth * device_.memory_efficiency);
  return std::max(compute, memory) + device_.kernel_floor;
}

Seconds AnalyticCostModel::attention(const AttentionShape& shape) const {
  if (const Seconds time = interpolated_attention(device_.attentions, shape); time.value() > 0) return time;
  const auto generation =
      static_cast<std::size_t>(shape.kernel) - static_cast<std::size_t>(AttentionKernel::flash1);
  FlopsPerSecond rate = device_.attention[generation];
  for (std::size_t older = generation; rate.value() == 0 && older-- > 0;) rate = device_.attention[older];
  if (rate.value() == 0) rate = device_.sustained_rate(shape.precision) * 0.5;
  const double s = shape.sequence;
  const double blocks = shape.samples * shape.heads * s / 128;
  const double filled = std::min(1.0, blocks / device_.multiprocessors);
  rate *= s / (s + constants().flash_half_sequence) * filled *
          std::min(1.0, constants().flash_narrow_head +
                            (1 - constants().flash_narrow_head) * shape.head_dim / 128);
  if (shape.backward) rate *= constants().flash_backward_rate;
  return Flops{attention_flops(shape.samples, shape.heads, s, shape.head_dim,
                               shape.backward ? constants().flash_backward_flops : 1)} /
             rate +
         device_.kernel_floor;
}

Seconds AnalyticCostModel::streaming(Bytes bytes, double kernels) const {
  return bytes / (device_.memory_bandwidth * device_.memory_efficiency) + device_.kernel_floor * kernels;
}

/// The measured time of a collective among groups of this shape: between two sizes along the straight line,
/// below the smallest its time (latency), beyond the largest at its bandwidth. Nothing where none was
/// measured.
std::optional<Seconds> AnalyticCostModel::measured_collective(Collective what, Bytes bytes,
                                                              const GroupPath& path) const {
  const MeasuredCollective *below = nullptr, *above = nullptr;
  for (const MeasuredCollective& m : device_.collectives) {
    if (m.what != what || m.shape.size != path.size || m.shape.stride != path.stride) continue;
    if (m.bytes <= bytes && (below == nullptr || m.bytes > below->bytes)) below = &m;
    if (m.bytes >= bytes && (above == nullptr || m.bytes < above->bytes)) above = &m;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  if (below == nullptr) return above->seconds;
  if (above == nullptr) return below->seconds * (bytes / below->bytes);
  if (above->bytes == below->bytes) return above->seconds;
  const double share = (bytes - below->bytes) / (above->bytes - below->bytes);
  return below->seconds + (above->seconds - below->seconds) * share;
}

Seconds AnalyticCostModel::collective(Collective what, Bytes bytes, const GroupPath& path) const {
  if (forced_ == CollectiveAlgorithm::automatic)
    if (const auto measured = measured_collective(what, bytes, path)) return *measured;
  return collective_time(what, bytes, path, forced_, device_.in_switch_reduction, constants());
}

}  // namespace tpplan
