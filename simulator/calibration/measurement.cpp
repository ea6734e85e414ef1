#include "simulator/calibration/measurement.hpp"

#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kStreamNames{"compute", "tp", "pp", "dp"};

Measurement measurement_from(const json& line) {
  Measurement m;
  m.step = line.at("step").get<int>();
  m.rank = line.at("rank").get<int>();
  m.label = line.at("label").get<std::string>();
  const auto stream = line.at("stream").get<std::string>();
  const auto found = std::find(kStreamNames.begin(), kStreamNames.end(), stream);
  if (found == kStreamNames.end()) throw std::invalid_argument("unknown stream '" + stream + "'");
  m.stream = static_cast<StreamKind>(found - kStreamNames.begin());
  m.start = Seconds{line.at("start").get<double>()};
  m.duration = Seconds{line.at("seconds").get<double>()};
  m.communication = Seconds{line.value("communication", 0.0)};
  m.bytes = Bytes{line.value("bytes", 0.0)};
  m.group = line.value("group", 1);
  return m;
}

}  // namespace

Environment environment_from_json(const std::string& text) {
  const json line = json::parse(text);
  return {.cpu = line.at("cpu").get<std::string>(),
          .cores = line.at("cores").get<int>(),
          .backend = line.at("backend").get<std::string>(),
          .transport = line.at("transport").get<std::string>(),
          .version = line.at("version").get<std::string>(),
          .ranks = line.at("ranks").get<int>(),
          .threads = line.at("threads").get<int>(),
          .hosts = line.at("hosts").get<int>()};
}

std::string to_json_line(const Measurement& m) {
  std::string line = fmt::format(
      R"({{"step":{},"rank":{},"label":"{}","stream":"{}","start":{:.9g},"seconds":{:.6g})", m.step, m.rank,
      m.label, kStreamNames[static_cast<std::size_t>(m.stream)], m.start.value(), m.duration.value());
  if (m.communication.value() > 0) line += fmt::format(R"(,"communication":{:.6g})", m.communication.value());
  if (m.bytes.value() > 0) line += fmt::format(R"(,"bytes":{:.0f})", m.bytes.value());
  if (m.group > 1) line += fmt::format(R"(,"group":{})", m.group);
  return line + "}\n";
}

std::string to_json_line(const Environment& e) {
  const json line{
      {"cpu", e.cpu},         {"cores", e.cores}, {"backend", e.backend}, {"transport", e.transport},
      {"version", e.version}, {"ranks", e.ranks}, {"threads", e.threads}, {"hosts", e.hosts}};
  return line.dump() + "\n";
}

RecordedRun read_measurements(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw ConfigError(fmt::format("{}: cannot be read", file.string()));
  RecordedRun run;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    const bool complete = !in.eof();
    try {
      const json line = json::parse(text);
      if (number == 1)
        run.environment = environment_from_json(text);
      else
        run.measurements.push_back(measurement_from(line));
    } catch (const std::exception& error) {
      if (!complete) break;
      throw ConfigError(fmt::format("{}:{}: not a measurement: {}", file.string(), number, error.what()));
    }
  }
  if (run.environment.ranks == 0)
    throw ConfigError(fmt::format("{}:1: the environment of the run is missing", file.string()));
  return run;
}

}  // namespace tpplan
