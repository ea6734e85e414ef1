#include "executor/train/checkpoint.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/backend/rank_threads.hpp"
#include "executor/cpu/cpu_backend.hpp"
#include "executor/support/training_run.hpp"
#include "executor/train/tensor_files.hpp"

namespace tpplan::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("checkpoint_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TrainingOptions options() {
  TrainingOptions o;
  o.learning_rate = 1e-3;
  o.warmup_steps = 2;
  o.total_steps = 20;
  o.dropout = 0.1;
  return o;
}

/// Trains from the newest checkpoint of the folder, or from the beginning, to step `until`; saves there.
std::vector<double> train_to(const ModelSpec& model, const ParallelPlan& plan, int until,
                             const fs::path& folder, std::vector<std::string>* skipped = nullptr) {
  std::vector<double> losses;
  run_rank_threads(plan.world(), Seconds{60}, [&](Communicator& world) {
    const auto backend = make_cpu_backend(1);
    Arena arena(*backend);
    Recorder recorder(world.rank(), false);
    RankContext rank(model, plan, *backend, arena, recorder, world);
    Trainer trainer(rank, options(),
                    make_schedule(plan.schedule, plan.pp, plan.vpp, static_cast<int>(plan.microbatches())));
    trainer.initialise();
    const auto restored = load_checkpoint(folder, trainer, rank);
    if (restored && skipped != nullptr && world.rank() == 0) *skipped = restored->skipped;
    BatchReader batches(random_samples(model), plan, rank.at.dp, trainer.next_step());
    while (trainer.next_step() < until) {
      const double loss = trainer.step(batches.next()).loss;
      if (world.rank() == 0) losses.push_back(loss);
    }
    save_checkpoint(folder, trainer, rank, 2);
  });
  return losses;
}

TEST(Checkpoint, ResumesUnderAnyOtherLayoutWithTheSameLosses) {
  for (const ModelSpec& model : {small_gpt2(), small_llama()}) {
    const std::vector<double> whole = train_to(model, small_plan(model, 1, 1, 1), 9, fresh_folder("whole"));
    const fs::path folder = fresh_folder("layouts");
    std::vector<double> losses = train_to(model, small_plan(model, 2, 1, 2), 3, folder);
    ParallelPlan four = small_plan(model, 1, 4, 1);
    four.zero = ZeroStage::weights;
    for (const auto& [plan, until] : {std::pair{four, 6}, {small_plan(model, 4, 1, 1), 9}}) {
      const std::vector<double> more = train_to(model, plan, until, folder);
      losses.insert(losses.end(), more.begin(), more.end());
    }
    ASSERT_EQ(losses.size(), whole.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], whole[i], 1e-5 * whole[i]) << "step " << i;
  }
}

TEST(Checkpoint, KeepsTheNewestAndLeavesNothingHalfWritten) {
  const ModelSpec model = small_gpt2();
  const fs::path folder = fresh_folder("kept");
  for (const int until : {1, 2, 3}) (void)train_to(model, small_plan(model, 1, 2, 1), until, folder);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("step-00000002", "step-00000003"));
}

TEST(Checkpoint, ADamagedOneIsPassedOverForTheOneBefore) {
  const ModelSpec model = small_gpt2();
  const ParallelPlan plan = small_plan(model, 1, 2, 1);
  const fs::path folder = fresh_folder("damaged");
  for (const int until : {1, 2}) (void)train_to(model, plan, until, folder);
  const fs::path file = folder / "step-00000002/exp_avg.safetensors";
  for (const bool truncate : {false, true}) {
    if (truncate) {
      fs::resize_file(file, fs::file_size(file) / 2);
    } else {
      std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
      damaged.seekp(-100, std::ios::end);
      damaged.put('\x55');
    }
    std::vector<std::string> skipped;
    const fs::path copy = fresh_folder("damaged_copy");
    fs::copy(folder, copy, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    const std::vector<double> losses = train_to(model, plan, 2, copy, &skipped);
    EXPECT_EQ(losses.size(), 1U) << "step 1 is trained again";
    ASSERT_EQ(skipped.size(), 1U);
    EXPECT_THAT(skipped[0], HasSubstr("exp_avg.safetensors is damaged"));
  }
}

TEST(Checkpoint, AFullDiskIsAnErrorAndLeavesTheLastOneWhole) {
  // A file system of 1 MiB cannot hold the 3 x 0.3 MB of this model twice.
  const fs::path folder = fresh_folder("full");
  if (std::system(("mount -t tmpfs -o size=1m tmpfs " + folder.string() + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "mounting a small file system needs root";
  const ModelSpec model = small_gpt2();
  const ParallelPlan plan = small_plan(model, 2, 1, 1);
  (void)train_to(model, plan, 1, folder / "checkpoints");
  std::string error;
  try {
    (void)train_to(model, plan, 2, folder / "checkpoints");
  } catch (const SystemError& failure) {
    error = failure.what();
  }
  EXPECT_THAT(error, HasSubstr("No space left on device"));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints"))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, ::testing::ElementsAre("step-00000001"));
  EXPECT_EQ(std::system(("umount " + folder.string()).c_str()), 0);
}

TEST(TensorFiles, HaveTheShapesOfHuggingFace) {
  const fs::path folder = fresh_folder("shapes");
  TensorFileWriter writer(folder, "model", small_gpt2());
  writer.create();
  const TensorFiles files(folder);
  files.require(small_gpt2());
  const MappedFile mapped(folder / "model.safetensors");
  const SafetensorsHeader header = read_safetensors_header("model", mapped.bytes());
  EXPECT_EQ(header.tensors.at("transformer.h.0.attn.c_attn.weight").shape,
            (std::vector<std::int64_t>{32, 96}));
  EXPECT_EQ(header.tensors.at("transformer.h.3.mlp.c_proj.weight").shape,
            (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(header.tensors.at("transformer.wte.weight").shape, (std::vector<std::int64_t>{257, 32}));
  EXPECT_EQ(header.tensors.size(), 2 + 4 * 12 + 2U);
  EXPECT_EQ(header.data_offset % 64, 0U);
}

std::string error_of_header(std::string bytes) {
  try {
    (void)read_safetensors_header("x.safetensors", std::as_bytes(std::span(bytes)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string file_of(const std::string& json, std::size_t data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json + std::string(data, '\0');
}

TEST(Safetensors, DamagedFilesAreRefusedWithTheReason) {
  EXPECT_THAT(error_of_header("abc"), HasSubstr("shorter than its first 8 bytes"));
  EXPECT_THAT(error_of_header(file_of(std::string(50, ' '), 0).substr(0, 20)), HasSubstr("is cut off"));
  EXPECT_THAT(error_of_header(file_of("{not json", 0)), HasSubstr("header is not as safetensors want it"));
  const std::string a = R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";
  EXPECT_EQ(error_of_header(file_of("{" + a + "}", 24)), "no error");
  EXPECT_THAT(error_of_header(file_of("{" + a + "}", 20)), HasSubstr("tensor a ends at byte 24 of 20"));
  EXPECT_THAT(error_of_header(file_of(R"({"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,24]}})", 24)),
              HasSubstr("shape (2, 4) does not fill bytes 0 to 24"));
  EXPECT_THAT(
      error_of_header(file_of("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[20,24]}})", 24)),
      HasSubstr("overlap at byte 20"));
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return file_of(R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", 24);
  };
  EXPECT_EQ(error_of_header(one("[6]", "[0,24]")), "no error");
  EXPECT_THAT(error_of_header(one("[1.5,4]", "[0,24]")), HasSubstr("'1.5' is no whole number"));
  EXPECT_THAT(error_of_header(one("[-2,-3]", "[0,24]")), HasSubstr("'-2' is no whole number"));
  EXPECT_THAT(error_of_header(one("[4294967296,4294967296]", "[0,0]")), HasSubstr("more than 2^48 elements"));
  EXPECT_THAT(error_of_header(one("[6]", "[0,24,24]")), HasSubstr("more than two offsets"));
  EXPECT_THAT(error_of_header(one("[5]", "[0,20]")), HasSubstr("do not fill its 24 bytes"));
  EXPECT_THAT(error_of_header(one("[5]", "[4,24]")), HasSubstr("do not fill its 24 bytes"));
  EXPECT_THAT(error_of_header(file_of("{" + a + "," + a + "}", 24)), HasSubstr("tensor a is there twice"));
  EXPECT_THAT(error_of_header(file_of("[]", 0)), HasSubstr("no object"));
  EXPECT_THAT(error_of_header(file_of(R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}})", 1)),
              HasSubstr("unknown format 'Q4'"));
}

TEST(Checksum, IsCrc32cOfItsStandardExample) {
  const std::string text = "123456789";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text))), 0xE3069283U);  // RFC 3720, appendix B.4
}

TEST(LearningRate, RisesLinearlyAndFallsAsACosine) {
  TrainingOptions o;
  o.learning_rate = 1;
  o.min_learning_rate = 0.1;
  o.warmup_steps = 4;
  o.total_steps = 12;
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 8), 0.55);  // half-way: the mean of both ends
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 12), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(o, 100), 0.1);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterItsWindow) {
  TrainingOptions o;
  o.initial_scale = 8;
  o.scale_window = 2;
  o.max_scale = 16;
  o.min_scale = 4;
  LossScale scale(o, true);
  scale.update(true);
  EXPECT_EQ(scale.value(), 4);
  scale.update(true);
  EXPECT_EQ(scale.value(), 4) << "not below the smallest";
  for (int i = 0; i < 2; ++i) scale.update(false);
  EXPECT_EQ(scale.value(), 8);
  for (int i = 0; i < 6; ++i) scale.update(false);
  EXPECT_EQ(scale.value(), 16) << "not above the largest";
  EXPECT_EQ(LossScale(o, false).value(), 1);
}

}  // namespace
}  // namespace tpplan::testing
