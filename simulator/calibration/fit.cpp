#include "simulator/calibration/fit.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "simulator/units/median.hpp"

namespace tpplan {
namespace {

constexpr int kRounds = 20;

/// The best x >= 0 with rows weighted: least squares over every subset of the unknowns, of those whose
/// solution is non-negative the one with the smallest sum.
Eigen::VectorXd best_subset(const Eigen::MatrixXd& a, const Eigen::VectorXd& y,
                            const Eigen::VectorXd& weights) {
  const auto unknowns = static_cast<unsigned>(a.cols());
  const Eigen::VectorXd roots = weights.cwiseSqrt();
  const Eigen::MatrixXd wa = roots.asDiagonal() * a;
  const Eigen::VectorXd wy = roots.cwiseProduct(y);
  Eigen::VectorXd best = Eigen::VectorXd::Zero(a.cols());
  double least = wy.squaredNorm();
  for (unsigned set = 1; set < 1U << unknowns; ++set) {
    std::vector<Eigen::Index> columns;
    for (unsigned i = 0; i < unknowns; ++i)
      if ((set >> i & 1U) != 0) columns.push_back(static_cast<Eigen::Index>(i));
    const Eigen::MatrixXd part = wa(Eigen::all, columns);
    const Eigen::VectorXd solution = part.colPivHouseholderQr().solve(wy);
    if (solution.minCoeff() < 0) continue;
    const double sum = (part * solution - wy).squaredNorm();
    if (sum >= least * (1 - 1e-12)) continue;
    least = sum;
    best.setZero();
    for (std::size_t i = 0; i < columns.size(); ++i)
      best[columns[i]] = solution[static_cast<Eigen::Index>(i)];
  }
  return best;
}

/// Unknowns that the rows tell apart, strongest column first.
std::vector<bool> identified_columns(const Eigen::MatrixXd& a, const Eigen::VectorXd& prior) {
  const Eigen::Index n = a.cols();
  std::vector<Eigen::Index> order;
  for (Eigen::Index i = 0; i < n; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](Eigen::Index i, Eigen::Index j) { return a.col(i).norm() > a.col(j).norm(); });
  const double all = (a * prior).cwiseAbs().sum();
  std::vector<bool> identified(static_cast<std::size_t>(n));
  std::vector<Eigen::Index> kept;
  for (const Eigen::Index i : order) {
    const double size = a.col(i).norm();
    if (size == 0 || a.col(i).cwiseAbs().sum() * prior[i] < 1e-3 * all) continue;
    if (!kept.empty()) {
      const Eigen::MatrixXd others = a(Eigen::all, kept);
      const Eigen::VectorXd explained = others.colPivHouseholderQr().solve(a.col(i));
      if ((others * explained - a.col(i)).norm() < 0.02 * size) continue;
    }
    kept.push_back(i);
    identified[static_cast<std::size_t>(i)] = true;
  }
  return identified;
}

}  // namespace

Fit fit_non_negative(const Eigen::MatrixXd& a, const Eigen::VectorXd& y, const Eigen::VectorXd& prior,
                     double pull) {
  assert(a.rows() == y.size() && a.cols() == prior.size() && a.cols() <= 10);
  Fit fit;
  fit.x = prior;
  fit.identified = identified_columns(a, prior);
  std::vector<Eigen::Index> free;
  Eigen::VectorXd rest = y;
  for (Eigen::Index i = 0; i < a.cols(); ++i) {
    if (fit.identified[static_cast<std::size_t>(i)])
      free.push_back(i);
    else
      rest -= a.col(i) * prior[i];
  }
  if (!free.empty() && a.rows() > 0) {
    const auto unknowns = static_cast<Eigen::Index>(free.size());
    const double held = pull * std::sqrt(static_cast<double>(a.rows()) / 10);
    Eigen::MatrixXd part(a.rows() + unknowns, unknowns);
    part << a(Eigen::all, free), Eigen::MatrixXd::Zero(unknowns, unknowns);
    rest.conservativeResize(a.rows() + unknowns);
    for (Eigen::Index i = 0; i < unknowns; ++i) {
      part(a.rows() + i, i) = held / prior[free[static_cast<std::size_t>(i)]];
      rest[a.rows() + i] = held;
    }
    Eigen::VectorXd weights = Eigen::VectorXd::Ones(part.rows());
    Eigen::VectorXd x;
    for (int round = 0; round < kRounds; ++round) {
      x = best_subset(part, rest, weights);
      const Eigen::VectorXd off = (part * x - rest).head(a.rows()).cwiseAbs();
      const double deviation = 1.4826 * median(std::vector<double>(off.data(), off.data() + off.size()));
      const double limit = std::max(1.5 * deviation, 1e-9);
      for (Eigen::Index r = 0; r < off.size(); ++r) weights[r] = off[r] <= limit ? 1 : limit / off[r];
    }
    for (std::size_t i = 0; i < free.size(); ++i) fit.x[free[i]] = x[static_cast<Eigen::Index>(i)];
  }
  fit.residuals = a * fit.x - y;
  const Eigen::VectorXd off = fit.residuals.cwiseAbs();
  fit.median_error = median(std::vector<double>(off.data(), off.data() + off.size()));
  return fit;
}

}  // namespace tpplan
