// Stands in for mpi_world.cpp where MPI was not found.

#include <cstdlib>

#include "executor/cpu/mpi_world.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {

struct MpiWorld::State {};

MpiWorld::MpiWorld() {
  throw SystemError("this program was built without MPI: ranks run as threads of one process");
}
MpiWorld::~MpiWorld() = default;
int MpiWorld::rank() const { return 0; }
int MpiWorld::ranks() const { return 1; }
int MpiWorld::ranks_on_host() const { return 1; }
int MpiWorld::ranks_on_machine() const { return 1; }
std::string MpiWorld::library() const { return {}; }
std::unique_ptr<Communicator> MpiWorld::connect(OperationBoard&) { return nullptr; }
void MpiWorld::abort(int code) { std::_Exit(code); }
bool MpiWorld::is_launched() { return false; }
bool MpiWorld::is_available() { return false; }

}  // namespace tpplan
