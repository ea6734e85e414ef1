#include "simulator/topology/cluster_builder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace tpplan {

Topology make_cluster(const DeviceSpec& device, int gpus, int gpus_per_machine, int nvlink_domain,
                      BytesPerSecond network_per_machine) {
  Topology topology;
  topology.name = fmt::format("{} x {}", gpus, device.name);
  topology.device = device;
  const int count = std::max(gpus_per_machine, nvlink_domain);
  const BytesPerSecond nic = network_per_machine / static_cast<double>(gpus_per_machine);
  const bool nvlink = nvlink_domain > 1 && device.nvlink_bandwidth.value() > 0;
  std::vector<NodeVertex> switches;
  const NodeVertex root = boost::add_vertex(Vertex{VertexKind::cpu, 0, "cpu0"}, topology.node);
  for (int i = 0; i < count; ++i) {
    const NodeVertex gpu =
        boost::add_vertex(Vertex{VertexKind::gpu, i, fmt::format("gpu{}", i)}, topology.node);
    const NodeVertex card =
        boost::add_vertex(Vertex{VertexKind::nic, i, fmt::format("nic{}", i)}, topology.node);
    const NodeVertex pci =
        boost::add_vertex(Vertex{VertexKind::pci, i, fmt::format("pci{}", i)}, topology.node);
    if (nvlink && i % nvlink_domain == 0) {
      const int island = i / nvlink_domain;
      switches.push_back(boost::add_vertex(
          Vertex{VertexKind::nvswitch, island, fmt::format("nvswitch{}", island)}, topology.node));
    }
    if (nvlink)
      boost::add_edge(gpu, switches.back(),
                      Link{LinkKind::nvlink, device.nvlink_bandwidth, device.nvlink_efficiency,
                           device.nvlink_latency, "NVLink"},
                      topology.node);
    const Link pcie{LinkKind::pcie, std::max(nic, gigabytes_per_second(25)), 1, microseconds(5), "PCIe"};
    boost::add_edge(gpu, pci, pcie, topology.node);
    boost::add_edge(card, pci, pcie, topology.node);
    boost::add_edge(pci, root, pcie, topology.node);
  }
  topology.fabric = Fabric{.kind = FabricKind::rail_optimised, .nic_bandwidth = nic};
  complete(topology);
  topology.gpus = count;
  topology.used_per_node = count;
  return with_gpus(std::move(topology), gpus);
}

}  // namespace tpplan
