#include "executor/probe/probe.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <set>

#include "executor/backend/arena.hpp"
#include "executor/backend/waiting.hpp"
#include "executor/cpu/cpu_backend.hpp"
#include "simulator/document/document.hpp"
#include "simulator/plan/problem.hpp"
#include "simulator/units/median.hpp"

namespace tpplan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

using Shape = std::array<std::int64_t, 4>;  // m, n, k; 1 for a weight gradient, else 0

/// The three products of a linear layer over `tokens` rows.
void add_linear(std::set<Shape>& shapes, std::int64_t tokens, std::int64_t in, std::int64_t out) {
  shapes.insert({tokens, out, in, 0});
  shapes.insert({tokens, in, out, 0});
  shapes.insert({in, out, tokens, 1});
}

std::vector<int> tensor_degrees(const ModelSpec& model, int ranks) {
  std::vector<int> legal;
  for (const TpDegree& degree : tp_degrees(model, ranks))
    if (degree.reason.empty()) legal.push_back(degree.tp);
  return legal;
}

std::set<Shape> product_shapes(const ProbeRequest& request, int ranks) {
  std::set<Shape> shapes;
  if (!request.model) {
    for (const std::int64_t tokens : {256, 1024, 4096})
      for (const std::int64_t in : {128, 512, 2048})
        for (const std::int64_t out : {128, 512, 2048}) add_linear(shapes, tokens, in, out);
    return shapes;
  }
  const ModelSpec& m = *request.model;
  for (const int tp : tensor_degrees(m, ranks))
    for (int micro = 1; micro <= request.largest_micro_batch; micro *= 2) {
      const std::int64_t tokens = static_cast<std::int64_t>(micro) * request.sequence;
      const std::int64_t q = m.q_width() / tp, kv = std::max<std::int64_t>(m.kv_width() / tp, m.head_dim);
      add_linear(shapes, tokens, m.hidden, q + 2 * kv);
      add_linear(shapes, tokens, q, m.hidden);
      add_linear(shapes, tokens, m.hidden, (m.gated_mlp ? 2 : 1) * m.ffn / tp);
      add_linear(shapes, tokens, m.ffn / tp, m.hidden);
      add_linear(shapes, tokens, m.hidden, padded_vocabulary(m.vocabulary, tp) / tp);
    }
  return shapes;
}

class Prober {
 public:
  Prober(const ProbeRequest& request, Communicator& world, const RankHost& host)
      : request_(request),
        world_(world),
        host_(host),
        machine_(host.machine),
        backend_(make_cpu_backend(host.threads)),
        arena_(*backend_) {
    active_ = std::clamp(machine_.cores / host.threads, 1, host.ranks_on_machine);
  }

  [[nodiscard]] ProbeResult run() {
    result_.environment = environment_of(host_, world_.size(), backend_->name());
    if (host_.ranks_on_machine < world_.size() && host_.ranks_on_machine * host_.threads > machine_.cores)
      throw ConfigError(fmt::format(
          "{} ranks of {} threads are more than the {} cores of a host; give fewer ranks or --rank-threads",
          host_.ranks_on_machine, host_.threads, machine_.cores));
    result_.ranks_per_host = host_.ranks_on_host;
    result_.ranks_per_machine = host_.ranks_on_machine;
    result_.memory = machine_.memory;
    kernels();
    collectives();
    return std::move(result_);
  }

 private:
  void kernels();
  void products(Precision precision);
  void attention(Precision precision);
  void collectives();
  void collective(const GroupShape& shape);
  [[nodiscard]] double timed(const std::function<void(int)>& call);
  [[nodiscard]] OwnedTensor random(DType type, std::int64_t rows, std::int64_t cols);

  const ProbeRequest& request_;
  Communicator& world_;
  const RankHost& host_;
  const Machine& machine_;
  std::unique_ptr<Backend> backend_;
  Arena arena_;
  int active_ = 1;                       // ranks of the first machine that have a core
  std::unique_ptr<Communicator> among_;  // them
  ProbeResult result_;
};

OwnedTensor Prober::random(DType type, std::int64_t rows, std::int64_t cols) {
  OwnedTensor x = arena_.matrix(type, rows, cols, MemoryCategory::workspace);
  backend_->fill(x.tensor, 0.01F);
  return x;
}

/// Seconds of one call while all active ranks make it: the mean over them of the median of five batches of
/// at least two milliseconds. `call` gets a number to take another set of operands each time.
double Prober::timed(const std::function<void(int)>& call) {
  call(0);
  call(1);
  const Clock::time_point once = Clock::now();
  call(2);
  double repeats[] = {std::clamp(std::ceil(2e-3 / std::max(1e-7, seconds_since(once))), 1.0, 10'000.0)};
  among_->all_reduce(repeats, ReduceOp::max);
  std::vector<double> batches;
  for (int batch = 0; batch < 5; ++batch) {
    among_->barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < static_cast<int>(repeats[0]); ++i) call(i);
    batches.push_back(seconds_since(start) / repeats[0]);
  }
  double sum[] = {median(batches)};
  among_->all_reduce(sum);
  return sum[0] / among_->size();
}

void Prober::kernels() {
  std::vector<int> members;
  for (int r = 0; r < active_; ++r) members.push_back(r);
  float done = 0;
  if (world_.rank() >= active_) {
    // Sleeps until the active ranks have finished.
    is_background_thread = true;
    world_.broadcast(vector(&done, DType::f32, 1), 0);
    is_background_thread = false;
    return;
  }
  among_ = world_.subgroup(members, "probe");
  {
    constexpr std::int64_t kElements = 8 << 20;
    const OwnedTensor a = random(DType::f32, 1, kElements), b = random(DType::f32, 1, kElements);
    const double time = timed([&](int) { backend_->add(a.tensor, b.tensor); });
    result_.memory_bandwidth = BytesPerSecond{3.0 * 4 * kElements / time};  // two reads, one write
    // What a call costs before it computes: a product so small that nothing else is left.
    const OwnedTensor small = random(DType::f32, 8, 8), product = random(DType::f32, 8, 8);
    result_.kernel_floor = Seconds{
        timed([&](int) { backend_->matmul(product.tensor, small.tensor, false, small.tensor, true, 0); })};
  }
  for (const Precision precision : request_.precisions) {
    products(precision);
    attention(precision);
  }
  world_.broadcast(vector(&done, DType::f32, 1), 0);
}

void Prober::products(Precision precision) {
  constexpr int kSets = 4;  // of operands, as every layer of a step has its own
  const DType type = dtype_of(precision);
  for (const Shape& shape : product_shapes(request_, world_.size())) {
    const auto& [m, n, k, kind] = shape;
    const bool is_weight_gradient = kind == 1;
    std::vector<OwnedTensor> a, b, c;
    for (int i = 0; i < kSets; ++i) {
      a.push_back(random(type, is_weight_gradient ? k : m, is_weight_gradient ? m : k));
      b.push_back(random(type, is_weight_gradient ? k : n, is_weight_gradient ? n : k));
      c.push_back(random(is_weight_gradient ? DType::f32 : type, m, n));
    }
    const double time = timed([&](int call) {
      const auto i = static_cast<std::size_t>(call % kSets);
      if (is_weight_gradient)
        backend_->matmul(c[i].tensor, a[i].tensor, true, b[i].tensor, false, 1);
      else
        backend_->matmul(c[i].tensor, a[i].tensor, false, b[i].tensor, true, 0);
    });
    result_.products.push_back({static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                                precision,
                                FlopsPerSecond{2.0 * static_cast<double>(m) * static_cast<double>(n) *
                                               static_cast<double>(k) / time}});
  }
}

void Prober::attention(Precision precision) {
  const DType type = dtype_of(precision);
  struct Case {
    int heads, head_dim;
  };
  std::vector<Case> cases{{8, 64}};
  if (request_.model) {
    cases.clear();
    for (const int tp : tensor_degrees(*request_.model, world_.size()))
      cases.push_back({request_.model->heads / tp, request_.model->head_dim});
  }
  for (const Case& c : cases)
    for (const int samples : {1, 4}) {
      AttentionArguments a;
      a.samples = samples;
      a.sequence = request_.sequence;
      a.heads = a.kv_heads = c.heads;
      a.head_dim = c.head_dim;
      a.scale = 0.1F;
      const std::int64_t rows = static_cast<std::int64_t>(samples) * a.sequence;
      const std::int64_t width = static_cast<std::int64_t>(c.heads) * c.head_dim;
      const OwnedTensor qkv = random(type, rows, 3 * width), gradient = random(type, rows, 3 * width);
      const OwnedTensor out = random(type, rows, width), d_out = random(type, rows, width);
      const OwnedTensor lse = random(DType::f32, static_cast<std::int64_t>(samples) * c.heads, a.sequence);
      a.q = qkv.tensor.col_range(0, width);
      a.k = qkv.tensor.col_range(width, width);
      a.v = qkv.tensor.col_range(2 * width, width);
      a.lse = lse.tensor;
      MeasuredAttentionRate measured{static_cast<double>(samples),
                                     static_cast<double>(c.heads),
                                     static_cast<double>(c.head_dim),
                                     static_cast<double>(a.sequence),
                                     false,
                                     precision};
      measured.time = Seconds{timed([&](int) { backend_->attention(out.tensor, a); })};
      result_.attention.push_back(measured);
      measured.backward = true;
      measured.time = Seconds{timed([&](int) {
        backend_->attention_backward(
            gradient.tensor.col_range(0, width), gradient.tensor.col_range(width, width),
            gradient.tensor.col_range(2 * width, width), out.tensor, d_out.tensor, a);
      })};
      result_.attention.push_back(measured);
    }
}

void Prober::collectives() {
  for (int size = 2; size <= world_.size(); ++size) {
    if (world_.size() % size != 0) continue;
    for (int stride = 1; stride * size <= world_.size(); ++stride)
      if (world_.size() % (stride * size) == 0) collective({size, stride});
  }
}

void Prober::collective(const GroupShape& shape) {
  const int first = world_.rank() / (shape.size * shape.stride) * (shape.size * shape.stride) +
                    world_.rank() % shape.stride;
  std::vector<int> members;
  for (int i = 0; i < shape.size; ++i) members.push_back(first + i * shape.stride);
  const auto group = world_.subgroup(members, "probe collectives");
  for (const std::int64_t bytes : {4 << 10, 64 << 10, 512 << 10, 4 << 20}) {
    const std::int64_t whole = bytes / 4 / shape.size * shape.size, part = whole / shape.size;
    const OwnedTensor x = random(DType::f32, 1, whole), y = random(DType::f32, 1, whole);
    const auto measure = [&](Collective what, const std::function<void()>& call) {
      call();
      std::vector<double> times;
      const Clock::time_point begin = Clock::now();
      // Everybody must stop at the same time: the first member's clock decides.
      for (float more = 1; more > 0;) {
        group->barrier();
        const Clock::time_point start = Clock::now();
        call();
        times.push_back(seconds_since(start));
        more = times.size() < 3 || (times.size() < 30 && seconds_since(begin) < 0.05) ? 1.0F : 0.0F;
        group->broadcast(vector(&more, DType::f32, 1), 0);
      }
      double slowest[] = {median(times)};
      world_.all_reduce(slowest, ReduceOp::max);
      result_.collectives.push_back(
          {what, shape, Bytes{static_cast<double>(whole * 4)}, Seconds{slowest[0]}});
    };
    measure(Collective::all_reduce, [&] { group->all_reduce(x.tensor); });
    measure(Collective::reduce_scatter, [&] { group->reduce_scatter(y.tensor.slice(0, part), x.tensor); });
    measure(Collective::all_gather, [&] { group->all_gather(x.tensor, y.tensor.slice(0, part)); });
    measure(Collective::all_to_all, [&] { group->all_to_all(y.tensor, x.tensor); });
    measure(Collective::send, [&] {
      // Pairs of neighbours: half of the members send to the other half and back, and half of that counts.
      const int peer = group->rank() ^ 1;
      if (peer >= group->size()) return;
      if (group->rank() % 2 == 0) {
        group->send(x.tensor, peer, 0);
        group->receive(y.tensor, peer, 1);
      } else {
        group->receive(y.tensor, peer, 0);
        group->send(x.tensor, peer, 1);
      }
    });
    result_.collectives.back().seconds = result_.collectives.back().seconds / 2;
  }
}

}  // namespace

ProbeResult run_probe(const ProbeRequest& request, Communicator& world, const RankHost& host) {
  return Prober(request, world, host).run();
}

}  // namespace tpplan
