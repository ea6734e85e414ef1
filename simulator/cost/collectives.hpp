#pragma once

#include "simulator/cost/cost_model.hpp"

namespace tpplan {

/// Ring over n ranks of a message of S bytes: n - 1 steps of S / n for reduce-scatter and all-gather, twice
/// that for all-reduce: t = (n-1)(alpha + S / (n beta)). Patarasuk and Yuan, JPDC 69(2), 2009. `alpha` of a
/// step is the node's latency or the network's, as the ring crosses it; `beta` the slower of the two.
[[nodiscard]] Seconds ring_time(Collective what, Bytes bytes, const GroupPath& path);

/// Double binary tree between nodes, chain inside (NCCL): all-reduce only. 2 log2(nodes) network steps and 2
/// (local - 1) local ones. Sanders, Speck and Traeff, Parallel Computing 35, 2009.
[[nodiscard]] Seconds tree_time(Bytes bytes, const GroupPath& path, const KernelConstants& constants);

/// Reduce-scatter inside the node, the same collective between nodes on 1 / local of the message on every
/// rank, all-gather inside: t = t_local + t_network.
[[nodiscard]] Seconds hierarchical_time(Collective what, Bytes bytes, const GroupPath& path);

/// All-reduce inside the switch (NVLink SHARP): one read and one write of the message by each rank.
[[nodiscard]] Seconds nvls_time(Bytes bytes, const GroupPath& path, const KernelConstants& constants);

/// The time of the algorithm that is forced, or of the fastest that the group allows. `in_switch_reduction`:
/// the device can reduce in its NVSwitch. A group of one takes no time.
[[nodiscard]] Seconds collective_time(Collective what, Bytes bytes, const GroupPath& path,
                                      CollectiveAlgorithm forced, bool in_switch_reduction,
                                      const KernelConstants& constants);

}  // namespace tpplan
