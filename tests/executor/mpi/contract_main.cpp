// Run under mpirun with 4 ranks: the communicator contract over real MPI processes.

#include <cstdio>

#include "executor/backend/communicator_contract.hpp"
#include "executor/cpu/mpi_world.hpp"

int main() {
  tpplan::MpiWorld mpi;
  tpplan::OperationBoard board;
  const auto world = mpi.connect(board);
  const auto wrong = tpplan::testing::communicator_contract(*world);
  for (const std::string& text : wrong) std::fprintf(stderr, "%s\n", text.c_str());
  double failures[] = {static_cast<double>(wrong.size())};
  world->all_reduce(failures);
  return failures[0] == 0 && world->size() >= 4 ? 0 : 1;
}
