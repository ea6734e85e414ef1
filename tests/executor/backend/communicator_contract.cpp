#include "executor/backend/communicator_contract.hpp"

#include <fmt/format.h>
#include <thread>

#include "executor/backend/half.hpp"

namespace tpplan::testing {
namespace {

class Contract {
 public:
  explicit Contract(Communicator& world) : world_(world) {}
  [[nodiscard]] std::vector<std::string> run() {
    for (const std::int64_t count : {1, 7, 64, 100'003}) {
      all_kinds<float>(world_, count, DType::f32);
      all_kinds<BFloat16>(world_, count, DType::bf16);
      all_kinds<Float16>(world_, count, DType::f16);
    }
    maximum();
    values();
    messages();
    groups();
    return std::move(wrong_);
  }

 private:
  template <class T>
  [[nodiscard]] static Tensor tensor(std::vector<T>& values, DType type) {
    return vector(values.data(), type, static_cast<std::int64_t>(values.size()));
  }
  void expect(bool right, const std::string& what) {
    if (!right) wrong_.push_back(fmt::format("rank {}: {}", world_.rank(), what));
  }
  template <class T>
  void expect_all(const std::vector<T>& got, auto expected, const std::string& what) {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (to_float(got[i]) != static_cast<float>(expected(static_cast<std::int64_t>(i))))
        return expect(false, fmt::format("{}: element {} is {}, not {}", what, i, to_float(got[i]),
                                         expected(static_cast<std::int64_t>(i))));
  }

  /// Element i of rank r is (i % 13) + r.
  template <class T>
  void all_kinds(Communicator& group, std::int64_t count, DType type) {
    const int n = group.size(), self = group.rank();
    const auto mine = [](int r) { return [r](std::int64_t i) { return i % 13 + r; }; };
    const auto made = [&](std::int64_t size, auto value) {
      std::vector<T> values(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < size; ++i)
        values[static_cast<std::size_t>(i)] = from_float<T>(static_cast<float>(value(i)));
      return values;
    };
    const auto sum = [n](std::int64_t i) { return n * (i % 13) + n * (n - 1) / 2; };

    auto x = made(count, mine(self));
    group.all_reduce(tensor(x, type));
    expect_all(x, sum, "all_reduce");

    auto whole = made(count * n, mine(self));
    std::vector<T> part(static_cast<std::size_t>(count));
    group.reduce_scatter(tensor(part, type), tensor(whole, type));
    expect_all(
        part, [&](std::int64_t i) { return sum(i + self * count); }, "reduce_scatter");
    whole = made(count * n, mine(self));
    const Tensor own = tensor(whole, type).slice(self * count, count);
    group.reduce_scatter(own, tensor(whole, type));
    const std::vector<T> in_place(own.as<T>(), own.as<T>() + count);
    expect_all(
        in_place, [&](std::int64_t i) { return sum(i + self * count); }, "reduce_scatter in place");

    const auto gathered = [count](std::int64_t i) { return i % count % 13 + i / count; };
    part = made(count, mine(self));
    std::vector<T> all(static_cast<std::size_t>(count * n));
    group.all_gather(tensor(all, type), tensor(part, type));
    expect_all(all, gathered, "all_gather");
    all = made(count * n, [&](std::int64_t i) { return i / count == self ? gathered(i) : -1; });
    group.all_gather(tensor(all, type), tensor(all, type).slice(self * count, count));
    expect_all(all, gathered, "all_gather in place");

    whole = made(count * n, [&](std::int64_t i) { return 10 * self + i / count; });
    group.all_to_all(tensor(all, type), tensor(whole, type));
    expect_all(
        all, [&](std::int64_t i) { return 10 * (i / count) + self; }, "all_to_all");

    x = made(count, mine(self));
    group.broadcast(tensor(x, type), n - 1);
    expect_all(x, mine(n - 1), "broadcast");
  }

  void maximum() {
    std::vector<float> x(5, static_cast<float>(world_.rank()));
    world_.all_reduce(tensor(x, DType::f32), ReduceOp::max);
    expect_all(
        x, [&](std::int64_t) { return world_.size() - 1; }, "maximum");
  }

  void values() {
    double x[] = {1.0, static_cast<double>(world_.rank())};
    world_.all_reduce(x);
    const double n = world_.size();
    expect(x[0] == n && x[1] == n * (n - 1) / 2, "all_reduce of values");
    world_.barrier();
    const std::string text = world_.rank() == 1 ? "told by rank 1" : "";
    expect(world_.broadcast_text(text, 1) == "told by rank 1", "broadcast of a text");
  }

  /// Two messages to the next rank while two come from the one before, longer than what is sent eagerly.
  void messages() {
    const int n = world_.size(), self = world_.rank();
    std::vector<float> first(300'000, static_cast<float>(self)),
        second(300'000, static_cast<float>(self + 100));
    std::vector<float> got_first(300'000), got_second(300'000);
    std::jthread sender([&] {
      world_.send(tensor(first, DType::f32), (self + 1) % n, 3);
      world_.send(tensor(second, DType::f32), (self + 1) % n, 3);
    });
    const int before = (self + n - 1) % n;
    world_.receive(tensor(got_first, DType::f32), before, 3);
    world_.receive(tensor(got_second, DType::f32), before, 3);
    sender.join();
    expect_all(
        got_first, [&](std::int64_t) { return before; }, "first message");
    expect_all(
        got_second, [&](std::int64_t) { return before + 100; }, "second message");
  }

  /// Even and odd ranks apart, then two groups of one rank each at the same time.
  void groups() {
    std::vector<int> same;
    for (int r = world_.rank() % 2; r < world_.size(); r += 2) same.push_back(r);
    const auto half = world_.subgroup(same, "parity");
    expect(half->members() == same, "members of a group are world ranks");
    all_kinds<float>(*half, 33, DType::f32);
    const int alone[] = {half->rank()};
    const auto single = half->subgroup(alone, "alone");
    expect(single->size() == 1 && single->members()[0] == world_.rank(), "a group of one");
    std::vector<float> x(3, 5.0F), y(3);
    single->all_reduce(tensor(x, DType::f32));
    single->all_gather(tensor(y, DType::f32), tensor(x, DType::f32));
    expect_all(
        y, [](std::int64_t) { return 5; }, "a group of one keeps its values");
  }

  Communicator& world_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::vector<std::string> communicator_contract(Communicator& world) { return Contract(world).run(); }

}  // namespace tpplan::testing
