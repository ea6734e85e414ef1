#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "executor/train/parameter_store.hpp"

// What happens to gradients once they are summed: their norm, the update, and the search for what is not
// finite.

namespace tpplan {

double ParameterStore::squared_norm() {
  double sum = 0;
  for (const Unit& unit : units_)
    for (const Run& run : unit.counted_runs)
      sum += rank_.backend.sum_of_squares(unit.gradient_share().slice(run.begin, run.end - run.begin));
  return sum;
}

void ParameterStore::optimizer_step(OptimizerKind kind, const AdamW& step) {
  for (const Unit& unit : units_)
    for (const Run& run : unit.decay_runs) {
      const std::int64_t count = run.end - run.begin;
      AdamW own = step;
      if (!run.decay) own.weight_decay = 0;
      const Tensor weights = unit.master_share().slice(run.begin, count);
      const Tensor gradient = unit.gradient_share().slice(run.begin, count);
      const Tensor whole = unit.copy_share();
      const Tensor copy = whole.data != nullptr ? whole.slice(run.begin, count) : Tensor{};
      if (kind == OptimizerKind::sgd)
        rank_.backend.sgd(weights, copy, gradient, own);
      else
        rank_.backend.adamw(weights, copy, unit.first_moment.tensor.slice(run.begin, count),
                            unit.second_moment.tensor.slice(run.begin, count), gradient, own);
    }
}

std::string ParameterStore::first_not_finite() {
  for (const Unit& unit : units_)
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter& p = parameter(unit, i);
      const std::int64_t begin = std::max<std::int64_t>(p.offset - unit.first, 0);
      const std::int64_t end = std::min(p.offset + p.elements() - unit.first, unit.shard);
      if (begin >= end) continue;
      for (const auto& [what, tensor] :
           {std::pair{"gradient", unit.gradient_share()}, {"weight", unit.master_share()}})
        if (!std::isfinite(rank_.backend.sum_of_squares(tensor.slice(begin, end - begin))))
          return fmt::format("{} of {}", what, p.name);
    }
  return {};
}

}  // namespace tpplan
