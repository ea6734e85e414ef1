#include "executor/backend/in_process.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "executor/backend/host_reduce.hpp"

namespace tpplan {

/// What the members of one group share. A collective is: everybody posts its buffers, a barrier, everybody
/// works on its part of all buffers, a barrier.
class InProcessWorld::Group {
 public:
  explicit Group(std::size_t size) : in(size), out(size), size_(size) {}

  std::vector<void*> in, out;  // posted by the members

  void barrier() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || aborted_; });
    if (round_ == round) throw Aborted(*aborted_);
  }

  void send(int from, int to, int tag, const void* data, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    if (aborted_) throw Aborted(*aborted_);
    auto message = std::make_shared<Message>(Message{data, bytes, false});
    boxes_[{from, to, tag}].push_back(message);
    changed_.notify_all();
    changed_.wait(lock, [&] { return message->taken || aborted_; });
    if (!message->taken) throw Aborted(*aborted_);
  }

  void receive(int from, int to, int tag, void* data, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    std::deque<std::shared_ptr<Message>>& box = boxes_[{from, to, tag}];
    changed_.wait(lock, [&] { return !box.empty() || aborted_; });
    if (box.empty()) throw Aborted(*aborted_);
    const std::shared_ptr<Message> message = box.front();
    box.pop_front();
    if (message->bytes != bytes) throw std::logic_error("message and receiver differ in size");
    lock.unlock();
    std::memcpy(data, message->data, bytes);
    lock.lock();
    message->taken = true;
    changed_.notify_all();
  }

  void abort(const std::string& reason) {
    const std::scoped_lock lock(mutex_);
    if (!aborted_) aborted_ = reason;
    changed_.notify_all();
  }

 private:
  struct Message {
    const void* data;
    std::size_t bytes;
    bool taken;
  };

  std::size_t size_, arrived_ = 0;
  std::uint64_t round_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<Message>>> boxes_;
  std::optional<std::string> aborted_;
};

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(InProcessWorld& world, int rank, std::vector<int> members, std::string name,
                        OperationBoard& operations)
      : Communicator(rank, std::move(members), std::move(name), operations),
        world_(world),
        group_(world.group(this->members(), this->name())) {}

  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const int> ranks,
                                                       const std::string& name) override {
    std::vector<int> world_ranks;
    int own = -1;
    for (const int r : ranks) {
      if (r == rank()) own = static_cast<int>(world_ranks.size());
      world_ranks.push_back(members()[static_cast<std::size_t>(r)]);
    }
    if (own < 0) throw std::logic_error("a rank that is no member asked for group " + name);
    return std::make_unique<InProcessCommunicator>(world_, own, std::move(world_ranks), name, board());
  }

 private:
  /// Posts the buffers, runs `work` on this rank's share of everybody's, and waits for the others.
  template <class Work>
  void collective(void* out, void* in, Work work) {
    const auto self = static_cast<std::size_t>(rank());
    group_->in[self] = in;
    group_->out[self] = out;
    group_->barrier();
    work();
    group_->barrier();
  }
  [[nodiscard]] std::int64_t part(std::int64_t count, int index) const { return count * index / size(); }

  void do_all_reduce(Tensor x, ReduceOp op) override {
    collective(x.data, x.data, [&] {
      reduce_elements(group_->out, group_->in, x.type, op, part(x.count(), rank()),
                      part(x.count(), rank() + 1));
    });
  }

  void do_reduce_scatter(Tensor out, Tensor in) override {
    collective(out.data, in.data, [&] {
      // Element i of out is element rank * n + i of every in.
      std::vector<void*> parts;
      for (void* whole : group_->in) parts.push_back(static_cast<std::byte*>(whole) + rank() * out.bytes());
      void* const own[] = {out.data};
      reduce_elements(own, parts, in.type, ReduceOp::sum, 0, out.count());
    });
  }

  void do_all_gather(Tensor out, Tensor in) override {
    collective(out.data, in.data, [&] {
      for (int r = 0; r < size(); ++r) {
        void* to = static_cast<std::byte*>(out.data) + r * in.bytes();
        const void* from = group_->in[static_cast<std::size_t>(r)];
        if (to != from) std::memcpy(to, from, static_cast<std::size_t>(in.bytes()));
      }
    });
  }

  void do_all_to_all(Tensor out, Tensor in) override {
    collective(out.data, in.data, [&] {
      const std::int64_t bytes = in.bytes() / size();
      for (int r = 0; r < size(); ++r)
        std::memcpy(static_cast<std::byte*>(out.data) + r * bytes,
                    static_cast<const std::byte*>(group_->in[static_cast<std::size_t>(r)]) + rank() * bytes,
                    static_cast<std::size_t>(bytes));
    });
  }

  void do_broadcast(Tensor x, int root) override {
    collective(x.data, x.data, [&] {
      if (rank() != root)
        std::memcpy(x.data, group_->in[static_cast<std::size_t>(root)], static_cast<std::size_t>(x.bytes()));
    });
  }

  void do_send(Tensor x, int to, int tag) override {
    group_->send(rank(), to, tag, x.data, static_cast<std::size_t>(x.bytes()));
  }
  void do_receive(Tensor x, int from, int tag) override {
    group_->receive(from, rank(), tag, x.data, static_cast<std::size_t>(x.bytes()));
  }
  void do_barrier() override { group_->barrier(); }

  void do_all_reduce_values(std::span<double> values, ReduceOp op) override {
    std::vector<double> result(values.size());
    collective(values.data(), values.data(), [&] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        double sum = static_cast<const double*>(group_->in[0])[i];
        for (std::size_t r = 1; r < group_->in.size(); ++r) {
          const double x = static_cast<const double*>(group_->in[r])[i];
          sum = op == ReduceOp::sum ? sum + x : std::max(sum, x);
        }
        result[i] = sum;
      }
    });
    std::copy(result.begin(), result.end(), values.begin());
  }

  InProcessWorld& world_;
  std::shared_ptr<InProcessWorld::Group> group_;
};

InProcessWorld::InProcessWorld(int ranks) : ranks_(ranks) {}
InProcessWorld::~InProcessWorld() = default;

std::unique_ptr<Communicator> InProcessWorld::connect(int rank, OperationBoard& board) {
  std::vector<int> all(static_cast<std::size_t>(ranks_));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<InProcessCommunicator>(*this, rank, std::move(all), "world", board);
}

void InProcessWorld::abort(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (!aborted_) abort_reason_ = reason;
  aborted_ = true;
  for (const auto& entry : groups_) entry.second->abort(abort_reason_);
}

std::shared_ptr<InProcessWorld::Group> InProcessWorld::group(const std::vector<int>& members,
                                                             const std::string& name) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Group>& found = groups_[{name, members}];
  if (!found) found = std::make_shared<Group>(members.size());
  if (aborted_) found->abort(abort_reason_);
  return found;
}

}  // namespace tpplan
