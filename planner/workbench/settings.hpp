#pragma once

#include <optional>
#include <string>

#include "planner/search/planner.hpp"
#include "simulator/model/model_limits.hpp"

namespace tpplan {

enum class Color { automatic, always, never };

/// Everything a user can set, from flags and from the experiment file. Filled through the option table only.
struct Settings {
  std::string model;
  int gpus = 0;          // 0: not given
  std::string topology;  // empty: the default
  std::optional<Batch> global_batch;
  int sequence = 0;  // 0: the model's
  Precision precision = Precision::bf16;
  std::string framework = "megatron-core";
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  int max_tp = 0;
  bool causal_flops = false;
  SearchOptions search;

  std::string experiment, plan, output, trace, folder;
  bool dot = false;
  bool dense = false;
  bool include_vague = false;
  int worst = 10;
  bool json = false;
  Color color = Color::automatic;
};

}  // namespace tpplan
