#include "simulator/topology/topology_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/topologies.hpp"

namespace tpplan {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::string pair_of(const std::string& bandwidth, const std::string& latency,
                    const std::string& counts = "") {
  return "name: m\ndevice: rtx-3090\nnode:\n  gpus: 2\n  cpus: 1\n" + counts +
         "  links:\n    - {from: \"gpu[0-1]\", to: cpu0, kind: pcie, bandwidth: " + bandwidth +
         ", latency: " + latency + "}\n";
}

TEST(TopologyReader, RefusesRatesAndTimesThatNoMachineHas) {
  EXPECT_EQ(error_of(pair_of("30 GB/s", "5 us")), "no error");
  EXPECT_THAT(error_of(pair_of("1e300 GB/s", "5 us")),
              HasSubstr("node.links[0].bandwidth: '1e300 GB/s' is outside 1 kB/s .. 1,000,000 TB/s"));
  EXPECT_THAT(error_of(pair_of("1e-300 GB/s", "5 us")), HasSubstr("is outside 1 kB/s"));
  EXPECT_THAT(error_of(pair_of("30 GB/s", "5 s")), HasSubstr("latency: '5 s' is outside 0 .. 1 s"));
  EXPECT_THAT(error_of("name: m\ndevice: {base: rtx-3090, memory: 1e30 TB}\nnode: {gpus: 1}\n"),
              HasSubstr("device.memory: '1e30 TB' is outside 1 MiB .. 1024 TiB"));
  EXPECT_THAT(error_of("name: m\ndevice: {base: rtx-3090, peak: {bf16: 1e300 TFLOP/s}}\nnode: {gpus: 1}\n"),
              HasSubstr("device.peak.bf16: '1e300 TFLOP/s' is outside"));
}

TEST(TopologyReader, NamesWhatHangsOnNothing) {
  EXPECT_THAT(error_of(pair_of("30 GB/s", "5 us", "  pci: 3\n")),
              HasSubstr("node: pci0 is not linked to the GPUs; add its link or leave it out"));
  EXPECT_THAT(error_of(pair_of("30 GB/s", "5 us", "  nics: 1\n")), HasSubstr("nic0 is not linked"));
}

TEST(TopologyReader, CountsAllGpusOrRefuses) {
  const std::string fabric = "fabric: {kind: fat-tree, nic_bandwidth: 1 GB/s}\n";
  const std::string node =
      "name: m\ndevice: a10g\nnode:\n  gpus: 32\n  cpus: 1\n  nics: 1\n  links:\n"
      "    - {from: \"gpu[0-31]\", to: cpu0, kind: pcie, bandwidth: 30 GB/s, latency: 5 us}\n"
      "    - {from: nic0, to: cpu0, kind: pcie, bandwidth: 30 GB/s, latency: 5 us}\n";
  EXPECT_EQ(machine_of(node + fabric + "nodes: 524288\n").gpus, 1 << 24);  // 2^19 x 2^5
  EXPECT_THAT(error_of(node + fabric + "nodes: 524289\n"),
              HasSubstr("nodes: 524289 nodes of 32 GPUs are more than 16777216 GPUs"));
}

TEST(TopologyReader, ARangeRunsForwards) {
  EXPECT_THAT(
      error_of("name: m\ndevice: rtx-3090\nnode:\n  gpus: 2\n  cpus: 1\n  links:\n"
               "    - {from: \"gpu[1-0]\", to: cpu0, kind: pcie, bandwidth: 1 GB/s, latency: 5 us}\n"),
      HasSubstr("'gpu[1-0]' runs backwards; write gpu[0-1]"));
}

TEST(TopologyReader, ADeviceMayDifferFromItsBaseInAFewNumbers) {
  const Topology topology = machine_of(
      "name: m\ndevice: {base: a100-sxm4-80gb, sustained: {bf16: 220 TFLOP/s}}\nnode: {gpus: 1}\n");
  const DeviceSpec base = read_device(kTopologies / "devices/a100-sxm4-80gb.yaml");
  EXPECT_EQ(topology.device.sustained_rate(Precision::bf16), teraflops(220));
  EXPECT_EQ(topology.device.sustained_rate(Precision::fp16), base.sustained_rate(Precision::fp16));
  EXPECT_EQ(topology.device.memory, base.memory);
  EXPECT_EQ(topology.device.name, base.name);
  EXPECT_THAT(error_of("name: m\ndevice: {base: a100-sxm4-80g}\nnode: {gpus: 1}\n"),
              HasSubstr("device.base: unknown device 'a100-sxm4-80g'; did you mean 'a100-sxm4-80gb'?"));
  EXPECT_THAT(error_of("name: m\ndevice: {base: a10g, sustaned: {}}\nnode: {gpus: 1}\n"),
              HasSubstr("unknown key 'sustaned'; did you mean 'sustained'?"));
  EXPECT_THAT(error_of("name: m\ndevice: {base: a10g, sustained: {bf16: 80 TFLOP/s}}\nnode: {gpus: 1}\n"),
              HasSubstr("sustained bf16 rate is above its peak"));
  EXPECT_THAT(error_of("name: m\ndevice: {name: own}\nnode: {gpus: 1}\n"),
              HasSubstr("key 'memory' is missing"));
}

}  // namespace
}  // namespace tpplan
