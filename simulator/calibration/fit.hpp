#pragma once

#include <Eigen/Dense>
#include <vector>

namespace tpplan {

/// x >= 0 that brings A x near y.
struct Fit {
  Eigen::VectorXd x;
  Eigen::VectorXd residuals;     // A x - y
  std::vector<bool> identified;  // false: the rows do not tell this unknown apart; it is left at its prior
  double median_error = 0;       // of |residual|
};

/// Non-negative least squares that weighs rows far off down (Huber 1964, iterated: a row whose residual is
/// beyond 1.5 robust deviations counts by its distance only). Rows should be scaled so that a residual of 1
/// means the same in each: relative errors have y = 1. An unknown that less than a thousandth of the rows'
/// sum hangs on, or whose column is a combination of others, is not identified and stays at `prior`. At most
/// 10 unknowns: every set of active ones is tried, which finds the optimum. `pull` holds each unknown near
/// its prior (ridge regression), as strongly as rows / 10 more rows in which being off by the whole prior
/// counts `pull`: what the rows barely tell does not run away.
[[nodiscard]] Fit fit_non_negative(const Eigen::MatrixXd& a, const Eigen::VectorXd& y,
                                   const Eigen::VectorXd& prior, double pull = 0);

}  // namespace tpplan
