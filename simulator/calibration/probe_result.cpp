#include "simulator/calibration/probe_result.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/calibration/fit.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using nlohmann::json;

/// Ranks of a group of this shape that lie in one host.
int local_ranks(const GroupShape& shape, int ranks_per_host) {
  return std::clamp((ranks_per_host + shape.stride - 1) / shape.stride, 1, shape.size);
}

/// Rounds of latency and share of the message that a rank moves, of a ring over n ranks.
struct Ring {
  double rounds, volume;
};
Ring ring_of(Collective what, double n) {
  switch (what) {
    case Collective::all_reduce:
      return {2 * (n - 1), 2 * (n - 1) / n};
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return {n - 1, (n - 1) / n};
    case Collective::all_to_all:
      return {std::log2(n), (n - 1) / n};
    case Collective::send:
      return {1, 1};
  }
  return {1, 1};
}

struct LinkFit {
  Seconds latency;
  BytesPerSecond bandwidth;
  double error = 0;
  int count = 0;
};

/// t = rounds alpha + volume S / beta, in relative errors. `sharing`: groups whose messages go over one link.
LinkFit fit_link(const std::vector<MeasuredCollective>& rows, double sharing) {
  LinkFit fit;
  fit.count = static_cast<int>(rows.size());
  if (rows.empty()) return fit;
  Eigen::MatrixXd a(static_cast<Eigen::Index>(rows.size()), 2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Ring ring = ring_of(rows[i].what, rows[i].shape.size);
    const auto r = static_cast<Eigen::Index>(i);
    a(r, 0) = ring.rounds * 1e-6 / rows[i].seconds.value();  // alpha in microseconds
    a(r, 1) = sharing * ring.volume * rows[i].bytes.value() * 1e-9 /
              rows[i].seconds.value();  // 1 / beta in ns a byte
  }
  const Fit found = fit_non_negative(a, Eigen::VectorXd::Ones(a.rows()), Eigen::Vector2d(5, 0.3));
  fit.latency = Seconds{std::max(found.x[0], 1e-3) * 1e-6};
  fit.bandwidth = BytesPerSecond{1e9 / std::max(found.x[1], 1e-6)};
  fit.error = found.median_error;
  return fit;
}

template <class Enum, std::size_t N>
Enum chosen(const json& text, const std::array<std::string_view, N>& names) {
  const auto word = text.get<std::string>();
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == word) return static_cast<Enum>(i);
  throw std::invalid_argument("unknown name '" + word + "'");
}

}  // namespace

std::string to_json(const ProbeResult& r) {
  json products = json::array(), attention = json::array(), collectives = json::array();
  for (const MeasuredProduct& p : r.products)
    products.push_back(
        {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"precision", name(p.precision)}, {"rate", p.rate.value()}});
  for (const MeasuredAttentionRate& a : r.attention)
    attention.push_back({{"samples", a.samples},
                         {"heads", a.heads},
                         {"head_dim", a.head_dim},
                         {"sequence", a.sequence},
                         {"backward", a.backward},
                         {"precision", name(a.precision)},
                         {"seconds", a.time.value()}});
  for (const MeasuredCollective& c : r.collectives)
    collectives.push_back({{"what", kCollectiveNames[static_cast<std::size_t>(c.what)]},
                           {"size", c.shape.size},
                           {"stride", c.shape.stride},
                           {"bytes", c.bytes.value()},
                           {"seconds", c.seconds.value()}});
  return json{{"environment", json::parse(to_json_line(r.environment))},
              {"ranks_per_host", r.ranks_per_host},
              {"ranks_per_machine", r.ranks_per_machine},
              {"memory", r.memory.value()},
              {"memory_bandwidth", r.memory_bandwidth.value()},
              {"kernel_floor", r.kernel_floor.value()},
              {"products", products},
              {"attention", attention},
              {"collectives", collectives}}
             .dump(1) +
         "\n";
}

ProbeResult read_probe(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw ConfigError(fmt::format("{}: cannot be read", file.string()));
  try {
    const json all = json::parse(in);
    ProbeResult r;
    r.environment = environment_from_json(all.at("environment").dump());
    r.ranks_per_host = all.at("ranks_per_host").get<int>();
    r.ranks_per_machine = all.at("ranks_per_machine").get<int>();
    r.memory = Bytes{all.at("memory").get<double>()};
    r.memory_bandwidth = BytesPerSecond{all.at("memory_bandwidth").get<double>()};
    r.kernel_floor = Seconds{all.at("kernel_floor").get<double>()};
    for (const json& p : all.at("products"))
      r.products.push_back({p.at("m").get<double>(), p.at("n").get<double>(), p.at("k").get<double>(),
                            chosen<Precision>(p.at("precision"), kPrecisionNames),
                            FlopsPerSecond{p.at("rate").get<double>()}});
    for (const json& a : all.at("attention"))
      r.attention.push_back(
          {a.at("samples").get<double>(), a.at("heads").get<double>(), a.at("head_dim").get<double>(),
           a.at("sequence").get<double>(), a.at("backward").get<bool>(),
           chosen<Precision>(a.at("precision"), kPrecisionNames), Seconds{a.at("seconds").get<double>()}});
    for (const json& c : all.at("collectives"))
      r.collectives.push_back({chosen<Collective>(c.at("what"), kCollectiveNames),
                               {c.at("size").get<int>(), c.at("stride").get<int>()},
                               Bytes{c.at("bytes").get<double>()},
                               Seconds{c.at("seconds").get<double>()}});
    return r;
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format("{}: is not what tpplan probe writes: {}", file.string(), error.what()));
  }
}

FittedLinks fit_links(const ProbeResult& result) {
  std::vector<MeasuredCollective> inside, between;
  for (const MeasuredCollective& c : result.collectives) {
    const int local = local_ranks(c.shape, result.ranks_per_host);
    // Groups that lie in one host tell of its memory, those with one rank a host of the network.
    if (local == c.shape.size) inside.push_back(c);
    if (local == 1) between.push_back(c);
  }
  const LinkFit local = fit_link(inside, 1), network = fit_link(between, result.ranks_per_host);
  return {local.latency, network.latency, local.bandwidth, network.bandwidth,
          local.error,   network.error,   local.count,     network.count};
}

std::string probe_topology(const ProbeResult& r, const std::string& name) {
  const FittedLinks links = fit_links(r);
  const int hosts = r.environment.hosts, ranks = r.ranks_per_host;
  std::string text = fmt::format(
      "# Written by tpplan probe. A \"GPU\" of this machine is a rank: a process with {} thread{}.\nname: "
      "{}\n"
      "source: {}\n",
      r.environment.threads, r.environment.threads == 1 ? "" : "s", yaml_string(name),
      yaml_string(
          fmt::format("measured with {} ranks of {} threads on {} ({} cores, {}, {}); links explain {} "
                      "collectives inside a host to {:.0f} % and {} between hosts to {:.0f} % (median)",
                      r.environment.ranks, r.environment.threads, r.environment.cpu, r.environment.cores,
                      r.environment.backend, r.environment.transport, links.local_count,
                      100 * links.local_error, links.network_count, 100 * links.network_error)));
  std::map<Precision, double> best;
  for (const MeasuredProduct& p : r.products) best[p.precision] = std::max(best[p.precision], p.rate.value());
  text += fmt::format(
      "device:\n  name: CPU-RANK\n  memory: {:.0f} B\n  memory_bandwidth: {:.4g} GB/s\n"
      "  memory_efficiency: 1\n  multiprocessors: 1\n  kernel_floor: {:.3g} us\n  context: 64 MiB\n  "
      "communicator: 1 MiB\n"
      "  collective_base: 0 us\n",
      r.memory.value() / r.ranks_per_machine, r.memory_bandwidth.value() / 1e9, r.kernel_floor.value() * 1e6);
  for (const char* key : {"peak", "sustained"}) {
    text += fmt::format("  {}: {{", key);
    bool more = false;
    for (const auto& [precision, rate] : best) {
      text += fmt::format("{}{}: {:.5g} GFLOP/s", more ? ", " : "", tpplan::name(precision), rate / 1e9);
      more = true;
    }
    text += "}\n";
  }
  text += "  products:\n";
  for (const MeasuredProduct& p : r.products)
    text += fmt::format("    - {{m: {}, n: {}, k: {}, {}: {:.4g} GFLOP/s}}\n", p.m, p.n, p.k,
                        tpplan::name(p.precision), p.rate.value() / 1e9);
  text += "  attentions:\n";
  for (const MeasuredAttentionRate& a : r.attention)
    text += fmt::format(
        "    - {{samples: {}, heads: {}, head_dim: {}, sequence: {}, backward: {}, precision: {}, "
        "time: {:.5g} us}}\n",
        a.samples, a.heads, a.head_dim, a.sequence, a.backward, tpplan::name(a.precision),
        a.time.value() * 1e6);
  text += "  collectives:\n";
  for (const MeasuredCollective& c : r.collectives)
    text += fmt::format("    - {{what: {}, size: {}, stride: {}, bytes: {:.0f} B, time: {:.5g} us}}\n",
                        kCollectiveNames[static_cast<std::size_t>(c.what)], c.shape.size, c.shape.stride,
                        c.bytes.value(), c.seconds.value() * 1e6);
  text += fmt::format(
      "node:\n  gpus: {}\n  cpus: 1\n{}  links:\n    - {{from: \"gpu[0-{}]\", to: cpu0, kind: inter-cpu, "
      "bandwidth: {:.4g} GB/s, latency: {:.4g} us, efficiency: 1, label: \"shared memory\"}}\n",
      ranks, hosts > 1 ? "  nics: 1\n" : "", ranks - 1,
      ranks > 1 ? links.local_bandwidth.value() / 1e9 : 10.0,
      ranks > 1 ? links.local_latency.value() * 1e6 : 1.0);
  if (hosts > 1) {
    text += "    - {from: nic0, to: cpu0, kind: pcie, bandwidth: 100 GB/s, latency: 0 us, efficiency: 1}\n";
    text += fmt::format(
        "fabric:\n  kind: fat-tree\n  nic_bandwidth: {:.5g} GB/s\n  efficiency: 1\n  latency: {:.4g} us\n",
        links.network_bandwidth.value() / 1e9, links.network_latency.value() * 1e6);
  }
  if (r.ranks_per_machine * r.environment.threads > r.environment.cores)
    text +=
        fmt::format("shared_cores: {}\n", static_cast<double>(r.environment.cores) / r.environment.threads);
  return text + fmt::format("nodes: {}\n", hosts);
}

}  // namespace tpplan
