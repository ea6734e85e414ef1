#include "simulator/calibration/fit.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace tpplan {
namespace {

/// Rows of relative shares, as a calibration has them: y = 1 when x is the truth.
struct Problem3 {
  Eigen::MatrixXd a;
  Eigen::VectorXd y;
};
Problem3 synthetic(const Eigen::Vector3d& truth, double noise, int rows) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0, 1);
  std::normal_distribution<double> normal(0, noise);
  Problem3 p{Eigen::MatrixXd(rows, 3), Eigen::VectorXd::Ones(rows)};
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < 3; ++c) p.a(r, c) = share(random);
    p.a.row(r) /= p.a.row(r).dot(truth) * (1 + normal(random));
  }
  return p;
}

TEST(Fit, RecoversKnownConstantsFromNoisyData) {
  const Eigen::Vector3d truth(1.3, 0.4, 2.5);
  const Problem3 p = synthetic(truth, 0.02, 60);
  const Fit fit = fit_non_negative(p.a, p.y, Eigen::Vector3d::Ones());
  // 2 % of noise over 60 rows: about 0.02 / sqrt(60) of the share that each unknown has; 5 % is ten times
  // that.
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(fit.x[i], truth[i], 0.05 * truth[i]);
    EXPECT_TRUE(fit.identified[static_cast<std::size_t>(i)]);
  }
  EXPECT_NEAR(fit.median_error, 0.6745 * 0.02, 0.006);  // median of |normal| is 0.6745 deviations
}

TEST(Fit, RowsThatAreFarOffHaveLittleSay) {
  const Eigen::Vector3d truth(1, 2, 0.5);
  Problem3 p = synthetic(truth, 0.01, 60);
  for (int r = 0; r < 6; ++r) p.a.row(r) *= 0.2;  // measured five times too long: another program ran
  const Fit fit = fit_non_negative(p.a, p.y, Eigen::Vector3d::Ones());
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(fit.x[i], truth[i], 0.06 * truth[i]);
}

TEST(Fit, NothingIsNegative) {
  Eigen::MatrixXd a(3, 2);
  a << 1, 1, 2, 1, 3, 1;
  // The unbounded solution of y = 2 x - 1 has -1; the best with none below zero is x = sum(a y) / sum(a a).
  const Fit fit = fit_non_negative(a, Eigen::Vector3d(1, 3, 5), Eigen::Vector2d::Ones());
  EXPECT_EQ(fit.x[1], 0);
  EXPECT_NEAR(fit.x[0], (1 * 1 + 2 * 3 + 3 * 5) / 14.0, 0.2);
}

TEST(Fit, WhatTheRowsDoNotTellStaysAsItWas) {
  Eigen::MatrixXd a(4, 3);
  a << 1, 2, 0, 2, 4, 0, 3, 6, 0, 4, 8, 0;  // the second column is twice the first, the third is empty
  const Fit fit = fit_non_negative(a, Eigen::Vector4d(2.5, 5, 7.5, 10), Eigen::Vector3d(1, 1, 0.7));
  EXPECT_EQ(fit.identified, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(fit.x[0], 1);
  EXPECT_NEAR(fit.x[1], 0.75, 1e-9);  // (2.5 - 1) / 2
  EXPECT_EQ(fit.x[2], 0.7);
}

TEST(Fit, ThePullHoldsWhatIsBarelyTold) {
  // Two columns that differ in one row by little: without a pull the second takes all of the noise there.
  Eigen::MatrixXd a(4, 2);
  a << 0.9, 0.10, 0.9, 0.10, 0.9, 0.11, 0.9, 0.13;
  const Eigen::Vector4d y(1, 1, 1.2, 1.3);
  const Fit free = fit_non_negative(a, y, Eigen::Vector2d::Ones());
  const Fit held = fit_non_negative(a, y, Eigen::Vector2d::Ones(), 0.1);
  EXPECT_GT(free.x[1], 3);
  EXPECT_LT(held.x[1], free.x[1] / 2);
}

}  // namespace
}  // namespace tpplan
