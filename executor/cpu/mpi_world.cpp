#include "executor/cpu/mpi_world.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <mpi.h>
#include <vector>

#include "executor/backend/host_reduce.hpp"
#include "executor/backend/waiting.hpp"
#include "executor/cpu/shared_window.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw SystemError(fmt::format("MPI: {}: {}", what, text.data()));
}

/// Finishes a request. A background thread polls and sleeps: Open MPI makes no progress by itself, and a
/// blocking call would spin on a core that computes.
void finish(MPI_Request request, const char* what) {
  if (!waits_asleep()) return check(MPI_Wait(&request, MPI_STATUS_IGNORE), what);
  Backoff backoff;
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    if (done != 0) return;
    backoff.pause();
  }
}

template <DType type>
void add_halves(void* in, void* inout, int* count, MPI_Datatype*) {
  void* const out[] = {inout};
  void* const both[] = {inout, in};
  reduce_elements(out, both, type, ReduceOp::sum, 0, *count);
}

/// The pieces in which a message goes, because MPI counts elements in an int.
template <class F>
void in_pieces(std::int64_t count, F f) {
  constexpr std::int64_t kMost = 1 << 30;
  for (std::int64_t first = 0; first < count; first += kMost)
    f(first, static_cast<int>(std::min(kMost, count - first)));
}

/// Bytes of a message that is summed by its receivers.
constexpr std::int64_t kPiece = 4 << 20;

struct SumOperations {
  MPI_Op bf16 = MPI_OP_NULL, f16 = MPI_OP_NULL;
};

/// A group that has several members on each of several hosts: sums are taken inside each host first, so that
/// the network carries each element once and not once for every member.
struct HostGroups {
  std::unique_ptr<SharedWindow> inside;
  MPI_Comm across = MPI_COMM_NULL;  // the members of the same place on their hosts

  HostGroups() = default;
  HostGroups(const HostGroups&) = delete;
  HostGroups& operator=(const HostGroups&) = delete;
  ~HostGroups() {
    inside.reset();
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended == 0 && across != MPI_COMM_NULL) MPI_Comm_free(&across);
  }

  /// Nothing unless all hosts have the same number of members, two at least.
  static std::unique_ptr<HostGroups> open(MPI_Comm comm) {
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "ranks of a host");
    int place = 0, members[2] = {0, 0};
    check(MPI_Comm_rank(host, &place), "rank");
    check(MPI_Comm_size(host, &members[0]), "size");
    members[1] = -members[0];
    check(MPI_Allreduce(MPI_IN_PLACE, members, 2, MPI_INT, MPI_MAX, comm), "members of hosts");
    std::unique_ptr<HostGroups> groups;
    if (members[0] == -members[1] && members[0] > 1) {
      groups = std::make_unique<HostGroups>();
      groups->inside = SharedWindow::open(host);
      int rank = 0, opened = groups->inside ? 1 : 0;
      check(MPI_Comm_rank(comm, &rank), "rank");
      check(MPI_Comm_split(comm, place, rank, &groups->across), "members of one place");
      check(MPI_Allreduce(MPI_IN_PLACE, &opened, 1, MPI_INT, MPI_MIN, comm), "windows of hosts");
      if (opened == 0) groups.reset();
    }
    MPI_Comm_free(&host);
    return groups;
  }
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, const SumOperations& sums, int rank, std::vector<int> members,
                  std::string name, OperationBoard& operations)
      : Communicator(rank, std::move(members), std::move(name), operations),
        comm_(comm),
        sums_(sums),
        window_(SharedWindow::open(comm)),
        hosts_(window_ ? nullptr : HostGroups::open(comm)) {}
  ~MpiCommunicator() override {
    window_.reset();
    hosts_.reset();
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended == 0) MPI_Comm_free(&comm_);
  }

  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const int> ranks,
                                                       const std::string& name) override {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &all), "group of a communicator");
    check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "group of ranks");
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_create_group(comm_, some, 0, &made), "creating a communicator");
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    int own = 0;
    check(MPI_Comm_rank(made, &own), "rank in a communicator");
    std::vector<int> world_ranks;
    for (const int r : ranks) world_ranks.push_back(members()[static_cast<std::size_t>(r)]);
    return std::make_unique<MpiCommunicator>(made, sums_, own, std::move(world_ranks), name, board());
  }

 private:
  [[nodiscard]] static MPI_Datatype type_of(DType type) {
    return type == DType::f32 ? MPI_FLOAT : MPI_UINT16_T;
  }
  [[nodiscard]] MPI_Op op_of(DType type, ReduceOp op) const {
    if (type == DType::f32) return op == ReduceOp::sum ? MPI_SUM : MPI_MAX;
    if (op != ReduceOp::sum) throw std::logic_error("maxima are taken in fp32");
    return type == DType::bf16 ? sums_.bf16 : sums_.f16;
  }

  void do_all_reduce(Tensor x, ReduceOp op) override {
    if (window_) return window_->all_reduce(x, op);
    if (hosts_) return hosts_->inside->all_reduce(x, op, [&](Tensor part) { sum(part, op, hosts_->across); });
    sum(x, op, comm_);
  }

  void sum(Tensor x, ReduceOp op, MPI_Comm comm) const {
    in_pieces(x.count(), [&](std::int64_t first, int count) {
      void* data = x.slice(first, count).data;
      if (!waits_asleep())
        return check(MPI_Allreduce(MPI_IN_PLACE, data, count, type_of(x.type), op_of(x.type, op), comm),
                     "all_reduce");
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Iallreduce(MPI_IN_PLACE, data, count, type_of(x.type), op_of(x.type, op), comm, &request),
            "all_reduce");
      finish(request, "all_reduce");
    });
  }

  void do_reduce_scatter(Tensor out, Tensor in) override {
    if (window_) return window_->reduce_scatter(out, in);
    // Everybody sends each its part and sums what it gets: half the traffic of the library's reduction that
    // is followed by a scatter. In pieces, packed aside, as the result may be a part of the input.
    const std::int64_t element = element_size(in.type), most = kPiece / element / size();
    staging_.resize(static_cast<std::size_t>(2 * kPiece));
    for (std::int64_t first = 0; first < out.count(); first += most) {
      const std::int64_t count = std::min(most, out.count() - first), bytes = count * element;
      std::byte* const received = staging_.data() + kPiece;
      std::vector<void*> parts;
      for (int member = 0; member < size(); ++member) {
        std::memcpy(staging_.data() + member * bytes,
                    in.as<std::byte>() + (member * out.count() + first) * element,
                    static_cast<std::size_t>(bytes));
        parts.push_back(received + member * bytes);
      }
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Ialltoall(staging_.data(), static_cast<int>(count), type_of(in.type), received,
                          static_cast<int>(count), type_of(in.type), comm_, &request),
            "reduce_scatter");
      finish(request, "reduce_scatter");
      void* const own[] = {out.as<std::byte>() + first * element};
      reduce_elements(own, parts, in.type, ReduceOp::sum, 0, count);
    }
  }

  void do_all_gather(Tensor out, Tensor in) override {
    if (window_) return window_->all_gather(out, in);
    if (in.count() > INT_MAX) throw std::logic_error("a part of more than 2^31 elements");
    const auto* own = out.as<std::byte>() + rank() * in.bytes();
    const void* from = in.data == own ? MPI_IN_PLACE : in.data;
    const int count = static_cast<int>(in.count());
    if (!waits_asleep())
      return check(MPI_Allgather(from, count, type_of(in.type), out.data, count, type_of(in.type), comm_),
                   "all_gather");
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(from, count, type_of(in.type), out.data, count, type_of(in.type), comm_, &request),
          "all_gather");
    finish(request, "all_gather");
  }

  void do_all_to_all(Tensor out, Tensor in) override {
    if (window_) return window_->all_to_all(out, in);
    const int count = static_cast<int>(in.count() / size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoall(in.data, count, type_of(in.type), out.data, count, type_of(in.type), comm_, &request),
          "all_to_all");
    finish(request, "all_to_all");
  }

  void do_broadcast(Tensor x, int root) override {
    if (window_) return window_->broadcast(x, root);
    in_pieces(x.count(), [&](std::int64_t first, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Ibcast(x.slice(first, count).data, count, type_of(x.type), root, comm_, &request),
            "broadcast");
      finish(request, "broadcast");
    });
  }

  void do_send(Tensor x, int to, int tag) override {
    in_pieces(x.count(), [&](std::int64_t first, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(x.slice(first, count).data, count, type_of(x.type), to, tag, comm_, &request), "send");
      finish(request, "send");
    });
  }

  void do_receive(Tensor x, int from, int tag) override {
    in_pieces(x.count(), [&](std::int64_t first, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Irecv(x.slice(first, count).data, count, type_of(x.type), from, tag, comm_, &request),
            "receive");
      finish(request, "receive");
    });
  }

  void do_barrier() override {
    if (window_) return window_->barrier();
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_, &request), "barrier");
    finish(request, "barrier");
  }

  void do_all_reduce_values(std::span<double> values, ReduceOp op) override {
    if (window_) return window_->all_reduce(values, op);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE,
                         op == ReduceOp::sum ? MPI_SUM : MPI_MAX, comm_, &request),
          "all_reduce");
    finish(request, "all_reduce");
  }

  MPI_Comm comm_;
  const SumOperations& sums_;
  std::vector<std::byte> staging_;
  std::unique_ptr<SharedWindow> window_;  // of a group on one host
  std::unique_ptr<HostGroups> hosts_;     // of a group on several hosts
};

/// The same for all processes under one kernel, in whatever container.
std::uint64_t machine_identity() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string text;
  in >> text;
  return std::hash<std::string>{}(text);
}

}  // namespace

struct MpiWorld::State {
  SumOperations sums;
  int rank = 0, ranks = 1, on_host = 1, on_machine = 1;
};

MpiWorld::MpiWorld() : state_(std::make_unique<State>()) {
  // Open MPI's own order of work for a background all-reduce is a reduction and a broadcast: twice a ring.
  setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1", 0);
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw SystemError("MPI cannot be initialised");
  if (provided < MPI_THREAD_MULTIPLE)
    throw SystemError("this MPI does not support calls from several threads (MPI_THREAD_MULTIPLE)");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Op_create(add_halves<DType::bf16>, 1, &state_->sums.bf16), "defining sums of bf16");
  check(MPI_Op_create(add_halves<DType::f16>, 1, &state_->sums.f16), "defining sums of fp16");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank), "rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &state_->ranks), "size");
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "ranks of this host");
  check(MPI_Comm_size(host, &state_->on_host), "size");
  MPI_Comm_free(&host);
  const std::uint64_t own = machine_identity();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(state_->ranks));
  check(MPI_Allgather(&own, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD), "all machines");
  state_->on_machine = static_cast<int>(std::count(all.begin(), all.end(), own));
}

MpiWorld::~MpiWorld() {
  MPI_Op_free(&state_->sums.bf16);
  MPI_Op_free(&state_->sums.f16);
  MPI_Finalize();
}

int MpiWorld::rank() const { return state_->rank; }
int MpiWorld::ranks() const { return state_->ranks; }
int MpiWorld::ranks_on_host() const { return state_->on_host; }
int MpiWorld::ranks_on_machine() const { return state_->on_machine; }

std::string MpiWorld::library() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole = text.data();
  return whole.substr(0, whole.find(','));
}

std::unique_ptr<Communicator> MpiWorld::connect(OperationBoard& board) {
  MPI_Comm all = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &all), "the world's communicator");
  std::vector<int> members(static_cast<std::size_t>(state_->ranks));
  for (int r = 0; r < state_->ranks; ++r) members[static_cast<std::size_t>(r)] = r;
  return std::make_unique<MpiCommunicator>(all, state_->sums, state_->rank, std::move(members), "world",
                                           board);
}

void MpiWorld::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

bool MpiWorld::is_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

bool MpiWorld::is_available() { return true; }

}  // namespace tpplan
