#include "simulator/topology/topology_reader.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <stdexcept>

#include "simulator/topology/device_reader.hpp"
#include "simulator/topology/ranges.hpp"

namespace tpplan {
namespace {

constexpr int kMostVertices = 1024;
constexpr std::int64_t kMostGpus = 1 << 24;

using Named = std::map<std::pair<VertexKind, int>, NodeVertex>;

/// "gpu[0-7]" or "cpu0": the vertices it names, in order.
std::vector<NodeVertex> vertices_of(const Value& value, const Named& known,
                                    const std::map<VertexKind, int>& counts) {
  const std::string text = value.text();
  const std::size_t digits = text.find_first_of("0123456789[");
  const std::string kind_name = text.substr(0, digits);
  std::size_t kind = kVertexKindNames.size();
  for (std::size_t i = 0; i < kVertexKindNames.size(); ++i)
    if (kVertexKindNames[i] == kind_name) kind = i;
  if (kind == kVertexKindNames.size() || digits == std::string::npos)
    value.fail(fmt::format(
        "'{}' names no vertex; write gpu0, gpu[0-7], nvswitch0, pci[0-3], cpu0 or nic[0-7]", text));

  int first = 0, last = 0;
  const auto number = [&](std::size_t& at, int& out) {
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), out);
    if (error != std::errc{}) value.fail(fmt::format("'{}' is not a range like {}[0-3]", text, kind_name));
    at = static_cast<std::size_t>(end - text.data());
  };
  std::size_t at = digits;
  if (text[at] == '[') {
    number(++at, first);
    if (at >= text.size() || text[at] != '-')
      value.fail(fmt::format("'{}' is not a range like {}[0-3]", text, kind_name));
    number(++at, last);
    if (at + 1 != text.size() || text[at] != ']')
      value.fail(fmt::format("'{}' is not a range like {}[0-3]", text, kind_name));
  } else {
    number(at, first);
    if (at != text.size()) value.fail(fmt::format("'{}' is not a vertex like {}0", text, kind_name));
    last = first;
  }
  const auto vertex_kind = static_cast<VertexKind>(kind);
  const auto count = counts.find(vertex_kind);
  const int most = count == counts.end() ? 0 : count->second;
  if (first > last)
    value.fail(fmt::format("'{}' runs backwards; write {}[{}-{}]", text, kind_name, last, first));
  if (first < 0 || last >= most)
    value.fail(
        fmt::format("'{}' is out of bounds: the node has {} of this kind, counted from 0", text, most));
  std::vector<NodeVertex> vertices;
  for (int i = first; i <= last; ++i) vertices.push_back(known.at({vertex_kind, i}));
  return vertices;
}

Link read_link(MapReader& map) {
  Link link;
  link.kind = map.required("kind").choice<LinkKind>(kLinkKindNames);
  link.bandwidth = link_rate(map.required("bandwidth"));
  link.latency = link_latency(map.required("latency"));
  if (const auto share = map.optional("efficiency")) link.efficiency = share->number(0.01, 1);
  const auto label = map.optional("label");
  link.label = label ? label->text() : std::string(kLinkKindNames[static_cast<std::size_t>(link.kind)]);
  return link;
}

void read_links(const Value& value, Topology& topology, const Named& known,
                const std::map<VertexKind, int>& counts) {
  for (const Value& entry : value.list()) {
    MapReader map = entry.map();
    const Value from_text = map.required("from"), to_text = map.required("to");
    const auto from = vertices_of(from_text, known, counts);
    const auto to = vertices_of(to_text, known, counts);
    if (from.size() % to.size() != 0)
      to_text.fail(fmt::format(
          "{} vertices cannot be dealt out evenly over {}; make the first a multiple of the second",
          from.size(), to.size()));
    const Link link = read_link(map);
    map.finish();
    const std::size_t block = from.size() / to.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] == to[i / block])
        entry.fail(fmt::format("{} is linked to itself", topology.node[from[i]].name));
      if (boost::edge(from[i], to[i / block], topology.node).second)
        entry.fail(fmt::format("{} and {} are linked twice; give one link with the sum of the bandwidths",
                               topology.node[from[i]].name, topology.node[to[i / block]].name));
      boost::add_edge(from[i], to[i / block], link, topology.node);
    }
  }
}

void read_node(const Value& value, Topology& topology) {
  MapReader map = value.map();
  Named known;
  std::map<VertexKind, int> counts;
  const std::array<const char*, 5> keys{"gpus", "nvswitches", "pci", "cpus", "nics"};
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const auto given = k == 0 ? std::optional(map.required(keys[k])) : map.optional(keys[k]);
    const int count = given ? static_cast<int>(given->integer(k == 0 ? 1 : 0, kMostVertices)) : 0;
    const auto kind = static_cast<VertexKind>(k);
    counts[kind] = count;
    for (int i = 0; i < count; ++i)
      known[{kind, i}] =
          boost::add_vertex(Vertex{kind, i, fmt::format("{}{}", kVertexKindNames[k], i)}, topology.node);
  }
  if (const auto links = map.optional("links")) read_links(*links, topology, known, counts);
  map.finish();
}

Fabric read_fabric(const Value& value) {
  Fabric fabric;
  MapReader map = value.map();
  fabric.kind = map.required("kind").choice<FabricKind>(kFabricKindNames);
  if (fabric.kind != FabricKind::none) {
    fabric.nic_bandwidth = link_rate(map.required("nic_bandwidth"));
    if (const auto share = map.optional("efficiency")) fabric.efficiency = share->number(0.01, 1);
    if (const auto latency = map.optional("latency")) fabric.latency = link_latency(*latency);
    if (const auto ratio = map.optional("oversubscription")) fabric.oversubscription = ratio->number(1, 1000);
    if (const auto nodes = map.optional("nodes_per_leaf"))
      fabric.nodes_per_leaf = static_cast<int>(nodes->integer(1, 1'000'000));
  }
  map.finish();
  return fabric;
}

/// `device:` names a file of `devices`, or describes a device, or is a map of what differs from its `base`.
DeviceSpec read_device_of(const Value& value, const std::filesystem::path& devices) {
  const auto named = [&](const Value& name) {
    const std::filesystem::path found = devices / (name.text() + ".yaml");
    if (std::filesystem::exists(found)) return read_device(found);
    std::vector<std::string> names;
    if (std::filesystem::is_directory(devices))
      for (const auto& entry : std::filesystem::directory_iterator(devices))
        names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    name.fail(fmt::format("unknown device '{}'{}", name.text(), did_you_mean(name.text(), names)));
  };
  if (!value.is_map()) return named(value);
  const auto base = value.map().optional("base");
  return device_from(value, base ? std::optional(named(*base)) : std::nullopt);
}

}  // namespace

Topology read_topology(const std::filesystem::path& file, const std::filesystem::path& devices) {
  Topology topology;
  const Value document = read_document(file);
  MapReader map = document.map();
  topology.name = map.required("name").text();
  if (const auto source = map.optional("source")) topology.source = source->text();
  topology.device = read_device_of(map.required("device"), devices);
  const Value node = map.required("node");
  read_node(node, topology);
  if (const auto fabric = map.optional("fabric")) topology.fabric = read_fabric(*fabric);
  if (const auto cores = map.optional("shared_cores")) topology.shared_cores = cores->number(0.1, 1e6);
  const auto nodes = map.optional("nodes");
  const int count = nodes ? static_cast<int>(nodes->integer(1, 1'000'000)) : 1;
  map.finish();
  try {
    complete(topology);
  } catch (const std::invalid_argument& error) {
    node.fail(error.what());
  }
  if (count > 1 && topology.fabric.kind == FabricKind::none)
    nodes->fail("several nodes need a fabric that joins them");
  const std::int64_t gpus = static_cast<std::int64_t>(count) * topology.gpus_per_node;
  if (gpus > kMostGpus)
    nodes->fail(
        fmt::format("{} nodes of {} GPUs are more than {} GPUs", count, topology.gpus_per_node, kMostGpus));
  return with_gpus(std::move(topology), static_cast<int>(gpus));
}

}  // namespace tpplan
