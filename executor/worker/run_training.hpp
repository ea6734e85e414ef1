#pragma once

#include <string>

#include "executor/backend/communicator.hpp"
#include "executor/probe/machine.hpp"
#include "executor/worker/workload.hpp"

namespace tpplan {

/// Trains on one rank; called by all of them. Rank 0 emits events and writes losses.csv, TensorBoard's file
/// and, in the end, report.json and measurements.jsonl to the folder of the job. A file named stop in that
/// folder ends training after the step that is under way.
void run_training(const Workload& work, Communicator& world, const RankHost& host);

/// One step of the plan: writes loss, gradient norm and, as safetensors, all gradients to the folder of the
/// job, under `name`. For `verify`, which compares two of them.
void run_gradients(const Workload& work, Communicator& world, const RankHost& host, const std::string& name);

}  // namespace tpplan
