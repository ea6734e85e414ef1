#include "planner/partition/partition.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <cassert>
#include <cmath>
#include <limits>

namespace tpplan {
namespace {

/// How far a rank's layers may lie from the even share. The ends differ by the weight of embedding and head,
/// the others by rounding; the window grows with those weights, so that the optimum is always inside.
constexpr int kSlack = 2;

struct Load {
  double most = 0;     // of the busiest rank
  double squares = 0;  // summed over ranks
  auto operator<=>(const Load&) const = default;
};

struct Edge {
  Load load;
};
using LayeredGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;

std::vector<int> layers_of_ranks(int layers, int pp, int vpp, EndWeights weights) {
  if (pp == 1) return {layers};
  const double share = (layers + weights.embedding + weights.head) / pp;
  // Prefixes of a balanced partition lie near r * share - embedding; keep only those vertices.
  const int width =
      2 * (kSlack +
           static_cast<int>(std::ceil(std::max({0.0, weights.head - share, weights.embedding - share}))) + 1);
  const auto lowest = [&](int ranks) {
    const int centre = static_cast<int>(std::lround(ranks * share - (ranks > 0 ? weights.embedding : 0)));
    const int first = std::clamp(centre - width / 2, ranks * vpp, layers - (pp - ranks) * vpp);
    return ranks == 0 ? 0 : ranks == pp ? layers : first;
  };
  const auto highest = [&](int ranks) {
    if (ranks == 0) return 0;
    if (ranks == pp) return layers;
    return std::clamp(lowest(ranks) + width, ranks * vpp, layers - (pp - ranks) * vpp);
  };
  std::vector<int> offset(static_cast<std::size_t>(pp) + 2, 0);
  for (int r = 0; r <= pp; ++r)
    offset[static_cast<std::size_t>(r) + 1] =
        offset[static_cast<std::size_t>(r)] + highest(r) - lowest(r) + 1;
  const auto vertex = [&](int ranks, int used) {
    return static_cast<std::size_t>(offset[static_cast<std::size_t>(ranks)] + used - lowest(ranks));
  };

  LayeredGraph graph(static_cast<std::size_t>(offset.back()));
  for (int r = 0; r < pp; ++r)
    for (int used = lowest(r); used <= highest(r); ++used)
      for (int next = std::max(used + vpp, lowest(r + 1)); next <= highest(r + 1); ++next) {
        const double work = next - used + (r == 0 ? weights.embedding : 0) + (r == pp - 1 ? weights.head : 0);
        boost::add_edge(vertex(r, used), vertex(r + 1, next), Edge{{work, work * work}}, graph);
      }

  std::vector<std::size_t> before(boost::num_vertices(graph));
  std::vector<Load> distance(boost::num_vertices(graph));
  const double infinity = std::numeric_limits<double>::infinity();
  boost::dag_shortest_paths(graph, vertex(0, 0),
                            boost::weight_map(boost::get(&Edge::load, graph))
                                .distance_map(boost::make_iterator_property_map(
                                    distance.begin(), boost::get(boost::vertex_index, graph)))
                                .predecessor_map(boost::make_iterator_property_map(
                                    before.begin(), boost::get(boost::vertex_index, graph)))
                                .distance_compare(std::less<>())
                                .distance_combine([](const Load& a, const Load& b) {
                                  return Load{std::max(a.most, b.most), a.squares + b.squares};
                                })
                                .distance_inf(Load{infinity, infinity})
                                .distance_zero(Load{}));

  std::vector<int> counts(static_cast<std::size_t>(pp));
  std::size_t at = vertex(pp, layers);
  int used = layers;
  for (int r = pp - 1; r >= 0; --r) {
    const std::size_t previous = before[at];
    const int earlier = static_cast<int>(previous) - offset[static_cast<std::size_t>(r)] + lowest(r);
    counts[static_cast<std::size_t>(r)] = used - earlier;
    used = earlier;
    at = previous;
  }
  return counts;
}

}  // namespace

std::vector<Stage> partition_layers(int layers, int pp, int vpp, EndWeights weights) {
  assert(layers >= pp * vpp);
  const std::vector<int> counts = layers_of_ranks(layers, pp, vpp, weights);
  std::vector<Stage> stages(static_cast<std::size_t>(pp) * static_cast<std::size_t>(vpp));
  for (int rank = 0; rank < pp; ++rank) {
    const int count = counts[static_cast<std::size_t>(rank)];
    for (int chunk = 0; chunk < vpp; ++chunk) {
      // The last rank fills its early chunks first (the head is in its last), the others their late ones.
      const int place = rank == pp - 1 ? vpp - 1 - chunk : chunk;
      const int share = count * (place + 1) / vpp - count * place / vpp;
      stages[static_cast<std::size_t>(chunk * pp + rank)].layers = share;
    }
  }
  int first = 0;
  for (Stage& stage : stages) {
    stage.first_layer = first;
    first += stage.layers;
  }
  stages.front().embedding = true;
  stages.back().head = true;
  assert(first == layers);
  return stages;
}

}  // namespace tpplan
