#include "simulator/plan/parallel_plan.hpp"

#include <cassert>

namespace tpplan {

std::vector<Stage> even_stages(int layers, int pp, int vpp) {
  const int count = pp * vpp;
  std::vector<Stage> stages(static_cast<std::size_t>(count));
  // The layers left over go to the stages in the middle: the first and the last hold embedding and head
  // besides.
  const int rest = layers % count;
  const int first_longer = (count - rest) / 2;
  int next = 0;
  for (int i = 0; i < count; ++i) {
    Stage& stage = stages[static_cast<std::size_t>(i)];
    stage.first_layer = next;
    stage.layers = layers / count + (i >= first_longer && i < first_longer + rest ? 1 : 0);
    next += stage.layers;
  }
  assert(next == layers);
  stages.front().embedding = true;
  stages.back().head = true;
  return stages;
}

}  // namespace tpplan
