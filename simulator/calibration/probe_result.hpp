#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "simulator/calibration/measurement.hpp"
#include "simulator/cost/cost_model.hpp"
#include "simulator/topology/topology.hpp"

namespace tpplan {

/// What a probe found out about the ranks of a machine or a cluster.
struct ProbeResult {
  Environment environment;
  int ranks_per_host = 1;
  int ranks_per_machine = 1;        // all of them where the hosts are containers of one machine
  Bytes memory;                     // of a machine
  BytesPerSecond memory_bandwidth;  // of one rank while all that have a core stream
  Seconds kernel_floor;             // of the smallest kernel
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredAttentionRate> attention;
  std::vector<MeasuredCollective> collectives;
};

[[nodiscard]] std::string to_json(const ProbeResult& result);
[[nodiscard]] ProbeResult read_probe(const std::filesystem::path& file);

/// Latency and bandwidth of the links that explain the collectives best: least squares of relative errors,
/// never negative, far-off values weighted down. `local` inside a host, `network` between hosts.
struct FittedLinks {
  Seconds local_latency, network_latency;
  BytesPerSecond local_bandwidth, network_bandwidth;
  double local_error = 0, network_error = 0;  // median of |predicted / measured - 1|
  int local_count = 0, network_count = 0;     // collectives that had a say
};
[[nodiscard]] FittedLinks fit_links(const ProbeResult& result);

/// A topology file of the machine: one device a rank, with what was measured and fitted.
[[nodiscard]] std::string probe_topology(const ProbeResult& result, const std::string& name);

}  // namespace tpplan
