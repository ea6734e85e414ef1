#pragma once

#include <optional>
#include <string>

#include "planner/search/planner.hpp"
#include "simulator/model/model_limits.hpp"
#include "simulator/plan/training_job.hpp"

namespace tpplan {

enum class Color { automatic, always, never };
enum class Launcher { automatic, mpirun, threads };
inline constexpr std::array<std::string_view, 3> kLauncherNames{"auto", "mpirun", "threads"};
enum class Binding { automatic, core, none };
inline constexpr std::array<std::string_view, 3> kBindingNames{"auto", "core", "none"};

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

  // Of run, rehearse and verify.
  TrainingJob job;
  bool has_min_learning_rate = false;
  Launcher launcher = Launcher::automatic;
  Binding binding = Binding::automatic;
  std::string hostfile;
  bool slurm = false;
  bool dry_run = false;
  std::vector<std::string> runs;  // folders of runs that are over
  std::string calibration;
  std::string name;  // of what is written
  int rounds = 4;    // of tune
  int candidates = 3;

  std::string experiment, plan, output, trace, folder;
  bool dot = false;
  bool dense = false;
  bool include_vague = false;
  int worst = 10;
  bool json = false;
  Color color = Color::automatic;
};

}  // namespace tpplan
