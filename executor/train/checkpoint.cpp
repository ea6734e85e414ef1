#include "executor/train/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/train/tensor_files.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Group {
  const char* prefix;
  ParameterStore::Field field;
};
constexpr std::array<Group, 3> kGroups{{{"model", ParameterStore::Field::weight},
                                        {"exp_avg", ParameterStore::Field::first_moment},
                                        {"exp_avg_sq", ParameterStore::Field::second_moment}}};
constexpr const char* kManifest = "manifest.json";

/// Runs `work` on this rank; when it failed on one, all ranks throw what that one met.
template <class Work>
void together(Communicator& world, Work work) {
  std::string error;
  try {
    work();
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  double failed[] = {error.empty() ? 0.0 : static_cast<double>(world.rank() + 1)};
  world.all_reduce(failed, ReduceOp::max);
  if (failed[0] > 0) throw SystemError(world.broadcast_text(error, static_cast<int>(failed[0]) - 1));
}

/// Folders of checkpoints, newest first.
std::vector<fs::path> checkpoints_of(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.starts_with("step-") && !name.ends_with(".partial") &&
        fs::exists(entry.path() / kManifest))
      found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// Checksums of all files, each taken by one rank.
std::vector<double> checksums(const std::vector<fs::path>& files, Communicator& world) {
  std::vector<double> sums(files.size());
  together(world, [&] {
    for (std::size_t i = 0; i < files.size(); ++i)
      if (static_cast<int>(i) % world.size() == world.rank()) sums[i] = file_checksum(files[i]);
  });
  world.all_reduce(sums);
  return sums;
}

json read_manifest(const fs::path& folder) {
  std::ifstream in(folder / kManifest);
  return json::parse(in);
}

/// Empty when every file is there and whole; called by all ranks.
std::string what_is_damaged(const fs::path& folder, Communicator& world) {
  std::vector<fs::path> files;
  std::vector<double> expected;
  try {
    const json manifest = read_manifest(folder);
    for (const auto& [name, sum] : manifest.at("checksums").items()) {
      files.push_back(folder / name);
      expected.push_back(sum.get<double>());
    }
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", (folder / kManifest).string(), error.what());
  }
  for (const fs::path& file : files)
    if (!fs::exists(file)) return fmt::format("{} is missing", file.string());
  const std::vector<double> found = checksums(files, world);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (found[i] != expected[i]) return fmt::format("{} is damaged: its checksum differs", files[i].string());
  return {};
}

}  // namespace

void save_checkpoint(const fs::path& folder, Trainer& trainer, RankContext& rank, int keep) {
  const bool first = rank.world.rank() == 0;
  const fs::path final_path = folder / fmt::format("step-{:08}", trainer.next_step());
  const fs::path partial = final_path.string() + ".partial";
  std::vector<TensorFileWriter> writers;
  for (const Group& group : kGroups) writers.emplace_back(partial, group.prefix, rank.model);
  try {
    together(rank.world, [&] {
      if (!first) return;
      fs::remove_all(partial);
      fs::create_directories(partial);
      for (const TensorFileWriter& writer : writers) writer.create();
    });
    std::vector<fs::path> files;
    together(rank.world, [&] {
      for (std::size_t g = 0; g < kGroups.size(); ++g) {
        writers[g].open();
        trainer.store().visit_own(kGroups[g].field, [&](const Part& part, std::int64_t row, std::int64_t col,
                                                        std::span<const float> values) {
          writers[g].write(part, row, col, values);
        });
        writers[g].close();
        for (const fs::path& file : writers[g].files()) files.push_back(file);
      }
    });
    const std::vector<double> sums = checksums(files, rank.world);
    together(rank.world, [&] {
      if (!first) return;
      json manifest{{"step", trainer.next_step()},
                    {"model", rank.model.name},
                    {"seed", trainer.options().seed},
                    {"loss_scale", trainer.loss_scale().value()},
                    {"good_steps", trainer.loss_scale().good_steps}};
      for (std::size_t i = 0; i < files.size(); ++i)
        manifest["checksums"][files[i].filename().string()] = static_cast<std::uint32_t>(sums[i]);
      write_file(partial / kManifest, manifest.dump(2) + "\n");
      fs::remove_all(final_path);
      fs::rename(partial, final_path);
      const std::vector<fs::path> all = checkpoints_of(folder);
      for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < all.size(); ++i)
        fs::remove_all(all[i]);
    });
  } catch (const std::exception&) {
    std::error_code ignored;
    if (first) fs::remove_all(partial, ignored);
    throw;
  }
}

std::optional<Restored> load_checkpoint(const fs::path& folder, Trainer& trainer, RankContext& rank) {
  Restored restored;
  for (const fs::path& candidate : checkpoints_of(folder)) {
    if (std::string damage = what_is_damaged(candidate, rank.world); !damage.empty()) {
      restored.skipped.push_back(std::move(damage));
      continue;
    }
    together(rank.world, [&] {
      for (const Group& group : kGroups) {
        const TensorFiles files(candidate, group.prefix);
        files.require(rank.model);
        const auto read = [&](const Parameter& p, const Part& part, float* to, std::int64_t stride) {
          files.read(p, part, to, stride);
        };
        if (group.field == ParameterStore::Field::weight)
          trainer.store().load(read);
        else
          trainer.store().load_moment(group.field == ParameterStore::Field::first_moment ? 0 : 1, read);
      }
      const json manifest = read_manifest(candidate);
      trainer.set_next_step(manifest.at("step").get<std::int64_t>());
      trainer.loss_scale().restore(manifest.at("loss_scale").get<double>(),
                                   manifest.at("good_steps").get<std::int64_t>());
    });
    restored.path = candidate;
    return restored;
  }
  if (!restored.skipped.empty())
    throw SystemError(fmt::format("no whole checkpoint is left: {}", restored.skipped.front()));
  return std::nullopt;
}

void load_weights(const fs::path& file_or_folder, Trainer& trainer, const ModelSpec& model) {
  const TensorFiles files(file_or_folder);
  files.require(model);
  trainer.store().load([&](const Parameter& p, const Part& part, float* to, std::int64_t stride) {
    files.read(p, part, to, stride);
  });
}

}  // namespace tpplan
