#include "executor/train/context.hpp"

namespace tpplan {
namespace {

std::unique_ptr<Communicator> group(Communicator& world, const std::vector<int>& ranks,
                                    const std::string& name) {
  return ranks.size() > 1 ? world.subgroup(ranks, name) : nullptr;
}

/// Adds the time of `work` to the communication of the running task.
template <class Work>
void timed(RankContext& rank, Work work) {
  rank.backend.synchronise();
  const Seconds start = rank.recorder.now();
  work();
  rank.recorder.add_communication(rank.recorder.now() - start);
}

}  // namespace

RankContext::RankContext(const ModelSpec& spec, const ParallelPlan& layout, Backend& device, Arena& memory,
                         Recorder& records, Communicator& everyone)
    : model(spec),
      plan(layout),
      backend(device),
      arena(memory),
      recorder(records),
      world(everyone),
      at(position_of(layout, everyone.rank())) {
  const RankGroups groups = groups_of(plan, model, world.rank());
  tensor = group(world, groups.tensor, "tensor");
  data = group(world, groups.data, "data");
  kv_copies = group(world, groups.kv_copies, "key copies");
  if (model.tied_embeddings && plan.pp > 1 && (at.pp == 0 || at.pp == plan.pp - 1))
    ends = group(world, groups.ends, "ends");
  forward = group(world, groups.pipeline, "pipeline forward");
  backward = group(world, groups.pipeline, "pipeline backward");
}

void tensor_all_reduce(RankContext& rank, Tensor x) {
  if (rank.tensor) timed(rank, [&] { rank.tensor->all_reduce(x); });
}

void tensor_reduce_scatter(RankContext& rank, Tensor out, Tensor in) {
  timed(rank, [&] { rank.tensor->reduce_scatter(out, in); });
}

void tensor_all_gather(RankContext& rank, Tensor out, Tensor in) {
  timed(rank, [&] { rank.tensor->all_gather(out, in); });
}

}  // namespace tpplan
