#pragma once

#include <vector>

#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

/// Weights of the embedding and of the head in units of one layer's time, forward and backward.
struct EndWeights {
  double embedding = 0;
  double head = 0;
};

/// Contiguous stages that minimise the work of the busiest pipeline rank, and then the sum of squares over
/// ranks. The layers of each rank are the shortest path, by (maximum, sum of squares), through a layered
/// graph whose vertices are (ranks filled, layers used) and whose edges give one rank its layers; they are
/// dealt out evenly over the rank's vpp chunks, the chunks with embedding or head getting the fewer. Every
/// chunk has at least one layer. Requires layers >= pp * vpp.
[[nodiscard]] std::vector<Stage> partition_layers(int layers, int pp, int vpp, EndWeights weights);

}  // namespace tpplan
