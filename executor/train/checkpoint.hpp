#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "executor/train/trainer.hpp"

namespace tpplan {

/// Checkpoints are folders step-00000100 with model*.safetensors (fp32 weights under Hugging Face names),
/// exp_avg*.safetensors and exp_avg_sq*.safetensors (the moments, same names) and manifest.json with the
/// step, the loss scale and the checksum of every file. Nothing in them depends on the layout. A folder is
/// written under another name and renamed when everything in it is on the disk.

/// Writes one; called by all ranks. Keeps the newest `keep`. Throws SystemError on every rank when one fails,
/// and leaves no half-written folder.
void save_checkpoint(const std::filesystem::path& folder, Trainer& trainer, RankContext& rank, int keep);

/// Restores the newest checkpoint of `folder` whose files are whole, by their checksums; called by all ranks.
/// `skipped` names damaged ones that were passed over. Nothing when there is none.
struct Restored {
  std::filesystem::path path;
  std::vector<std::string> skipped;
};
[[nodiscard]] std::optional<Restored> load_checkpoint(const std::filesystem::path& folder, Trainer& trainer,
                                                      RankContext& rank);

/// Begins with published weights. Throws ConfigError when a tensor is missing or has another shape.
void load_weights(const std::filesystem::path& file_or_folder, Trainer& trainer, const ModelSpec& model);

}  // namespace tpplan
