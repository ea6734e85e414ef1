#include "planner/workbench/changes.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "planner/search/complete_plan.hpp"

namespace tpplan {
namespace {

struct Variant {
  std::string what;
  ParallelPlan plan;
};

void add_degree_trades(const ParallelPlan& plan, std::vector<Variant>& variants) {
  struct Axis {
    const char* name;
    int ParallelPlan::*member;
  };
  constexpr std::array axes{Axis{"tp", &ParallelPlan::tp}, Axis{"pp", &ParallelPlan::pp},
                            Axis{"dp", &ParallelPlan::dp}};
  for (const Axis& up : axes)
    for (const Axis& down : axes) {
      if (up.member == down.member || plan.*down.member % 2 != 0) continue;
      ParallelPlan p = plan;
      p.*up.member *= 2;
      p.*down.member /= 2;
      if (p.tp == 1) p.sequence_parallel = false;
      if (p.dp == 1) p.zero = ZeroStage::none;
      if (p.pp == 1) p.vpp = 1;
      if (p.pp == 1 && p.schedule == ScheduleKind::interleaved) p.schedule = ScheduleKind::one_f_one_b;
      variants.push_back({fmt::format("{} {} -> {}, {} {} -> {}", up.name, plan.*up.member, p.*up.member,
                                      down.name, plan.*down.member, p.*down.member),
                          p});
    }
}

std::vector<Variant> variants_of(const Problem& problem, const ParallelPlan& plan) {
  std::vector<Variant> variants;
  add_degree_trades(plan, variants);
  const auto add = [&](std::string what, auto change) {
    ParallelPlan p = plan;
    change(p);
    variants.push_back({std::move(what), std::move(p)});
  };
  if (plan.tp > 1)
    add(fmt::format("sequence parallel {}", plan.sequence_parallel ? "on -> off" : "off -> on"),
        [](ParallelPlan& p) { p.sequence_parallel = !p.sequence_parallel; });
  for (int zero = 0; zero <= 3; ++zero)
    if (zero != static_cast<int>(plan.zero))
      add(fmt::format("ZeRO {} -> {}", static_cast<int>(plan.zero), zero),
          [&](ParallelPlan& p) { p.zero = static_cast<ZeroStage>(zero); });
  for (const int micro : {plan.micro_batch * 2, plan.micro_batch / 2})
    if (micro >= 1)
      add(fmt::format("micro-batch {} -> {}", plan.micro_batch, micro),
          [&](ParallelPlan& p) { p.micro_batch = micro; });
  for (std::size_t r = 0; r < kRecomputeNames.size(); ++r)
    if (r != static_cast<std::size_t>(plan.recompute))
      add(fmt::format("recompute {} -> {}", kRecomputeNames[static_cast<std::size_t>(plan.recompute)],
                      kRecomputeNames[r]),
          [&](ParallelPlan& p) { p.recompute = static_cast<Recompute>(r); });
  if (plan.pp > 1) {
    const auto schedule = [&](ScheduleKind kind, int vpp) {
      if (kind == plan.schedule && vpp == plan.vpp) return;
      add(fmt::format("schedule {} vpp {} -> {} vpp {}",
                      kScheduleNames[static_cast<std::size_t>(plan.schedule)], plan.vpp,
                      kScheduleNames[static_cast<std::size_t>(kind)], vpp),
          [&](ParallelPlan& p) { p.schedule = kind, p.vpp = vpp; });
    };
    schedule(ScheduleKind::gpipe, 1);
    schedule(ScheduleKind::one_f_one_b, 1);
    for (int vpp = 2; vpp * plan.pp <= problem.model.layers; vpp *= 2)
      schedule(ScheduleKind::interleaved, vpp);
  }
  return variants;
}

std::optional<Change> try_variant(const Problem& problem, const CostModel& model, const Variant& variant,
                                  Seconds before, Bytes limit) {
  ParallelPlan plan = variant.plan;
  if (static_cast<std::int64_t>(plan.pp) * plan.vpp > problem.model.layers) return std::nullopt;
  plan.stages = even_stages(problem.model.layers, plan.pp, plan.vpp);
  if (!violations(problem, plan).empty()) return std::nullopt;
  Change change{.what = variant.what, .plan = complete_plan(problem, model, plan)};
  change.report = simulate_plan(problem, model, change.plan);
  change.gain = 1 - change.report.step / before;
  change.fits = change.report.memory.peak() <= limit;
  return change;
}

void sort_best_first(std::vector<Change>& changes) {
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::pair(!a.fits, a.report.step) < std::pair(!b.fits, b.report.step);
  });
}

}  // namespace

std::vector<Change> single_changes(const Problem& problem, const CostModel& model, const ParallelPlan& plan,
                                   Bytes limit) {
  const Seconds before = simulate_plan(problem, model, plan).step;
  std::vector<Change> changes;
  for (const Variant& variant : variants_of(problem, plan))
    if (auto change = try_variant(problem, model, variant, before, limit))
      changes.push_back(std::move(*change));
  sort_best_first(changes);
  return changes;
}

std::optional<Change> smallest_fitting_change(const Problem& problem, const CostModel& model,
                                              const ParallelPlan& plan, Bytes limit,
                                              const std::vector<Change>& singles) {
  if (!singles.empty() && singles.front().fits) return singles.front();
  const Seconds before = simulate_plan(problem, model, plan).step;
  std::vector<Change> pairs;
  for (const Change& first : singles)
    for (const Variant& second : variants_of(problem, first.plan)) {
      auto change = try_variant(problem, model, second, before, limit);
      if (!change || !change->fits) continue;
      change->what = first.what + "; " + change->what;
      pairs.push_back(std::move(*change));
    }
  sort_best_first(pairs);
  if (pairs.empty()) return std::nullopt;
  return std::move(pairs.front());
}

}  // namespace tpplan
