#include "simulator/cost/analytic_cost_model.hpp"

#include <gtest/gtest.h>

#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using testing::round_device;

TEST(ProductEfficiency, OneWaveOfFullTilesLosesOnlyTheShortK) {
  // 100 tiles of 128x256 on 100 multiprocessors: one full wave. K = half_k: half.
  KernelConstants c;
  const ProductShape shape{.m = 1280, .n = 2560, .k = c.product_half_k};
  EXPECT_DOUBLE_EQ(product_efficiency(shape, 100, c), 0.5);
}

TEST(ProductEfficiency, OneTileMoreThanAWaveNeedsASecondOne) {
  // 101 tiles of 128x256 on 100 multiprocessors: 1.01 / 2 = 0.505. Smaller tiles: 202 of 128x128 in 3 waves:
  // 0.673 x their rate; 404 of 64x128 in 5 waves: 0.808 x theirs. The best of the three counts.
  KernelConstants c;
  c.tile_128x128 = 0.9;
  c.tile_64x128 = 0.5;
  const ProductShape shape{.m = 101 * 128, .n = 256, .k = 1e12};
  EXPECT_NEAR(product_efficiency(shape, 100, c), 2.02 / 3 * 0.9, 1e-6);
}

TEST(Product, LargeOnesRunAtTheSustainedRate) {
  // 2 x 16384^3 FLOPs at 200 TFLOP/s, K/(K + half_k), beyond 20 waves of exact tiles.
  KernelConstants c;
  const AnalyticCostModel model(round_device(), CollectiveAlgorithm::automatic, c);
  const double n = 16384;
  const double expected = 2 * n * n * n / 200e12 * (n + c.product_half_k) / n;
  EXPECT_NEAR(model.product({.m = n, .n = n, .k = n}).value(), expected, expected * 1e-9);
}

TEST(Product, ThinOnesRunAtMemorySpeed) {
  // m = 1: reads K x N of 2 bytes at 2000 GB/s x 0.5.
  const AnalyticCostModel model(round_device());
  const double bytes = (1.0 * 8192 + 8192.0 * 8192 + 8192) * 2;
  EXPECT_NEAR(model.product({.m = 1, .n = 8192, .k = 8192}).value(), bytes / 1000e9, 1e-9);
}

TEST(Attention, BackwardCostsMoreAndLongSequencesRunFaster) {
  const AnalyticCostModel model(round_device());
  const auto rate = [&](double s) {
    const double flops = 2 * 4 * 32 * s * s * 128;
    return flops / model.attention({.samples = 4, .heads = 32, .head_dim = 128, .sequence = s}).value();
  };
  EXPECT_LT(rate(1024), rate(8192));
  EXPECT_LT(rate(8192), 100e12);
  AttentionShape shape{.samples = 4, .heads = 32, .head_dim = 128, .sequence = 2048};
  const Seconds forward = model.attention(shape);
  shape.backward = true;
  const KernelConstants& c = model.constants();
  EXPECT_NEAR(model.attention(shape) / forward, c.flash_backward_flops / c.flash_backward_rate, 1e-9);
}

TEST(Attention, NewerKernelFallsBackToTheNewestTheDeviceHas) {
  DeviceSpec device = round_device();
  device.attention = {teraflops(50), teraflops(80), FlopsPerSecond{0}};
  const AnalyticCostModel model(device);
  AttentionShape shape{
      .samples = 8, .heads = 16, .head_dim = 128, .sequence = 4096, .kernel = AttentionKernel::flash3};
  const Seconds third = model.attention(shape);
  shape.kernel = AttentionKernel::flash2;
  EXPECT_EQ(third, model.attention(shape));
}

TEST(Streaming, BytesOverTheReachableBandwidth) {  // 1 GB at 2000 GB/s x 0.5 = 1 ms
  const AnalyticCostModel model(round_device());
  EXPECT_NEAR(model.streaming(Bytes{1e9}, 1).value(), 1e-3, 1e-12);
}

}  // namespace
}  // namespace tpplan
