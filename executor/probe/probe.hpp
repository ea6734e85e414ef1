#pragma once

#include <optional>

#include "executor/backend/communicator.hpp"
#include "executor/probe/machine.hpp"
#include "simulator/calibration/probe_result.hpp"
#include "simulator/model/model_spec.hpp"

namespace tpplan {

/// What a probe measures. With a model, the products and the attention that its layers need on up to as many
/// tensor ranks as there are; without one, a grid of sizes.
struct ProbeRequest {
  std::optional<ModelSpec> model;
  int sequence = 512;
  int largest_micro_batch = 8;
  std::vector<Precision> precisions{Precision::fp32};
};

/// Measures on all ranks together; the result is complete on rank 0. Ranks beyond the cores sleep while
/// kernels are measured, so that each kernel has a core for itself. Collectives are measured among all ranks.
[[nodiscard]] ProbeResult run_probe(const ProbeRequest& request, Communicator& world, const RankHost& host);

}  // namespace tpplan
