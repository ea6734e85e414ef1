#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "simulator/document/document.hpp"
#include "simulator/plan/training_options.hpp"

namespace tpplan {

enum class JobTask : std::uint8_t { train, verify, verify_one, rehearse, probe };
inline constexpr std::array<std::string_view, 5> kJobTaskNames{"train", "verify", "verify_one", "rehearse",
                                                               "probe"};

enum class TokenFormat : std::uint8_t { automatic, bytes, uint16, uint32 };
inline constexpr std::array<std::string_view, 4> kTokenFormatNames{"auto", "bytes", "uint16", "uint32"};

/// What tpplan asks the ranks of tpplan-worker to do. Written to job.yaml in the run's folder.
struct TrainingJob {
  JobTask task = JobTask::train;
  std::string model, plan;  // files
  std::string data;         // text or tokens; empty: random tokens
  TokenFormat format = TokenFormat::automatic;
  std::string output;   // folder of the run: losses, measurements, checkpoints
  std::string weights;  // safetensors file or folder to begin with; empty: random
  std::int64_t steps = 100;
  std::int64_t checkpoint_every = 0;  // steps; 0: only at the end
  int keep_checkpoints = 2;
  bool save_at_end = true;
  bool resume = false;
  bool measure = true;   // write measurements.jsonl
  int threads = 0;       // of a rank; 0: the host's cores dealt out evenly
  int ranks = 1;         // of a probe, which has no plan
  int sequence = 512;    // of a probe's shapes
  double patience = 60;  // seconds that a collective may take before the job is ended
  TrainingOptions training;
  bool operator==(const TrainingJob&) const = default;
};

[[nodiscard]] std::string job_to_yaml(const TrainingJob& job);
/// Strict, as every reader of documents.
[[nodiscard]] TrainingJob read_job(const std::filesystem::path& file);

}  // namespace tpplan
