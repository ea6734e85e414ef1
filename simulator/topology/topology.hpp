#pragma once

#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/units/precision.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

enum class VertexKind { gpu, nvswitch, pci, cpu, nic };
enum class LinkKind { nvlink, pcie, inter_cpu, network };
enum class FabricKind { none, rail_optimised, fat_tree };
enum class AttentionKernel { torch, fused_softmax, flash1, flash2, flash3 };
inline constexpr std::array<std::string_view, 5> kVertexKindNames{"gpu", "nvswitch", "pci", "cpu", "nic"};
inline constexpr std::array<std::string_view, 4> kLinkKindNames{"nvlink", "pcie", "inter-cpu", "network"};
inline constexpr std::array<std::string_view, 3> kFabricKindNames{"none", "rail-optimised", "fat-tree"};
inline constexpr std::array<std::string_view, 5> kAttentionKernelNames{"torch", "fused_softmax", "flash1",
                                                                       "flash2", "flash3"};

/// The rate that one shape of matrix product reached: C (m, n) = A (m, k) B (k, n).
struct MeasuredProduct {
  double m = 0, n = 0, k = 0;
  Precision precision = Precision::fp32;
  FlopsPerSecond rate;
};

/// The time that fused attention of one shape took.
struct MeasuredAttentionRate {
  double samples = 1, heads = 1, head_dim = 64, sequence = 1024;
  bool backward = false;
  Precision precision = Precision::fp32;
  Seconds time;
};

enum class Collective { all_reduce, reduce_scatter, all_gather, all_to_all, send };
inline constexpr std::array<std::string_view, 5> kCollectiveNames{"all_reduce", "reduce_scatter",
                                                                  "all_gather", "all_to_all", "send"};

/// The size of a group and how its ranks lie: rank i of the group is base + i * stride in the global order.
struct GroupShape {
  int size = 1;
  int stride = 1;
  auto operator<=>(const GroupShape&) const = default;
};

/// The time of one collective among all groups of one shape at once.
struct MeasuredCollective {
  Collective what = Collective::all_reduce;
  GroupShape shape;
  Bytes bytes;      // of the message, as CostModel::collective counts it
  Seconds seconds;  // median
};

/// An accelerator. Every number is the device's own; sources stand in its file under topologies/devices.
struct DeviceSpec {
  std::string name;
  std::string source;
  Bytes memory;                          // what the driver reports as total
  BytesPerSecond memory_bandwidth;       // datasheet
  double memory_efficiency = 0.88;       // share that streaming kernels reach
  int multiprocessors = 0;               // SMs; CPU: cores
  std::array<FlopsPerSecond, 6> peak{};  // datasheet, dense, by Precision; 0: the device has no such unit
  std::array<FlopsPerSecond, 6>
      sustained{};  // of large matrix products, power and clocks included; 0: as peak x 0.75
  std::array<FlopsPerSecond, 3>
      attention{};  // fused attention forward: flash1, flash2, flash3 class; 0: not available
  std::vector<MeasuredProduct> products;  // rates of matrix products as measured; empty: by tiles and peak
  std::vector<MeasuredAttentionRate>
      attentions;  // times of fused attention as measured; empty: by `attention`
  std::vector<MeasuredCollective>
      collectives;  // among the cluster's ranks as measured; other groups: by the links
  std::optional<Seconds> collective_base;  // launch and skew of a collective; none: the cost model's constant
  bool in_switch_reduction = false;        // NVLink SHARP: NVSwitch of the third generation and later
  Seconds kernel_floor = microseconds(4);  // shortest kernel, back to back
  Bytes context = mebibytes(600);  // driver context and libraries' workspaces that the allocator never sees
  Bytes communicator = mebibytes(500);  // that the collective library keeps per group: channels, buffers

  // Its NVLinks together, for clusters that are known by figures only (make_cluster); 0: none
  BytesPerSecond nvlink_bandwidth;  // one direction
  double nvlink_efficiency = 0.78;
  Seconds nvlink_latency = microseconds(4.5);  // of one step of a ring

  [[nodiscard]] FlopsPerSecond peak_rate(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
  [[nodiscard]] FlopsPerSecond sustained_rate(Precision p) const {
    const FlopsPerSecond rate = sustained[static_cast<std::size_t>(p)];
    return rate.value() > 0 ? rate : peak_rate(p) * 0.75;
  }
};

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  int index = 0;
  std::string name;  // "gpu3", "nic0"
};

/// A link of the node graph. Full duplex: `bandwidth` is of one direction, all lanes of the link together.
struct Link {
  LinkKind kind = LinkKind::nvlink;
  BytesPerSecond bandwidth;
  double efficiency = 0.8;  // share that collectives reach (busbw / bandwidth)
  Seconds latency;          // added by one step of a ring over this link
  std::string label;        // "NV12", "PCIe 4.0 x16"
};

/// Edges are links of the node.
using NodeGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Vertex, Link>;

using NodeVertex = boost::graph_traits<NodeGraph>::vertex_descriptor;
using NodeEdge = boost::graph_traits<NodeGraph>::edge_descriptor;

/// What joins the nodes.
struct Fabric {
  FabricKind kind = FabricKind::none;
  BytesPerSecond nic_bandwidth;        // line rate of one NIC, one direction
  double efficiency = 0.75;            // share that collectives reach of the line rate
  Seconds latency = microseconds(14);  // added by one step of a ring over the network
  double oversubscription = 1;         // bandwidth below a leaf switch / bandwidth above it
  int nodes_per_leaf = 0;              // nodes under one leaf (or rail group); 0: all
};

/// What a collective over one group sees when all groups of the same shape run at the same time.
struct GroupPath {
  int size = 1;
  int stride = 0;                  // of its shape; 0: a pair of pipeline ranks
  int local = 1;                   // ranks of the group in one node, the same for every node and group
  int nodes = 1;                   // size / local
  BytesPerSecond local_bandwidth;  // busbw that `local` ranks reach among themselves, efficiency included
  Seconds local_latency;           // of one ring step inside the node
  LinkKind local_kind = LinkKind::nvlink;
  bool switched = false;  // the local ranks hang on an NVSwitch (NVLS and the like are possible)
  BytesPerSecond
      network_bandwidth;  // of the group's flow in or out of one node, sharing and oversubscription included
  Seconds network_latency;
  std::string bottleneck;  // the link that limits it, in words: "NVLink 300 GB/s", "NIC 25 GB/s shared by 2"
};

/// A homogeneous cluster: one node as a graph, repeated, and the fabric between.
struct Topology {
  std::string name;
  std::string source;
  DeviceSpec device;
  NodeGraph node;
  Fabric fabric;
  std::vector<NodeVertex> gpu_vertices;  // by GPU index in the node
  std::vector<NodeVertex> nic_vertices;
  std::vector<int> nic_of_gpu;  // the nearest NIC of each GPU; -1 without NICs
  int gpus_per_node = 0;        // GPUs in the node graph (one NVLink rack counts as one node)
  int nvlink_domain = 1;        // GPUs joined by NVLink, counted from GPU 0; 1 without NVLink
  int nics_per_node = 0;
  int gpus = 0;             // of the whole cluster
  int used_per_node = 0;    // GPUs used of each node: gpus / nodes()
  double shared_cores = 0;  // cores that all devices share, when these are processes of one machine; 0: none

  [[nodiscard]] int nodes() const { return gpus / used_per_node; }
};

/// Fills what follows from the node graph and the device: vertex tables, counts, NVLink domain, nearest NICs.
/// Called by every maker of a topology. Throws std::invalid_argument when a GPU cannot reach the others or a
/// NIC of the node, when a vertex hangs on nothing, and when a fabric has no NICs.
void complete(Topology& topology);

/// The route between two vertices of the node: the fewest links, among those the widest (class Routes says
/// who hands on). Empty when from == to and when there is none.
[[nodiscard]] std::vector<NodeEdge> route(const Topology& topology, NodeVertex from, NodeVertex to);

/// The cluster cut to `gpus` devices: fewer than a node, or evenly over the fewest nodes that hold them.
/// Throws std::invalid_argument when gpus < 1.
[[nodiscard]] Topology with_gpus(Topology topology, int gpus);

/// Bandwidth and latency of a group when all groups of this shape communicate at once. Routes are the widest
/// shortest paths in the node graph; flows of concurrent groups add up on shared links and NICs. Where groups
/// do not fill the nodes evenly (4 ranks on nodes of 6) some group straddles two nodes, and that one counts.
/// 1 <= size * stride <= gpus.
[[nodiscard]] GroupPath group_path(const Topology& topology, GroupShape shape);

/// One transfer from each rank of [from, from + count) to its counterpart in [to, to + count), all at the
/// same time: what pipeline stages do. Over the network as soon as one pair is; `senders` ranks of a node
/// then share its NICs. `size` is 2 in the result.
[[nodiscard]] GroupPath pair_path(const Topology& topology, int from, int to, int count, int senders);

}  // namespace tpplan
