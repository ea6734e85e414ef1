#include <nlohmann/json.hpp>

#include "planner/workbench/json.hpp"

namespace tpplan {
namespace {
using Json = nlohmann::ordered_json;
}

std::string to_json(const RunReport& report) {
  Json steps = Json::array(), memory = Json::array(), places = Json::array();
  for (const RunStep& s : report.steps)
    steps.push_back({{"step", s.step},
                     {"loss", s.loss},
                     {"gradient_norm", s.gradient_norm},
                     {"seconds", s.time.value()},
                     {"tokens_per_second", s.tokens_per_second},
                     {"communication", s.communication},
                     {"pipeline_wait", s.pipeline_wait},
                     {"skipped", s.skipped}});
  for (const Bytes bytes : report.memory) memory.push_back(bytes.value());
  for (const RankPlace& p : report.places)
    places.push_back({{"rank", p.rank},
                      {"host", p.host},
                      {"device", p.device},
                      {"nic", p.nic},
                      {"tp", p.at.tp},
                      {"dp", p.at.dp},
                      {"pp", p.at.pp},
                      {"tensor", p.groups.tensor},
                      {"data", p.groups.data},
                      {"pipeline", p.groups.pipeline}});
  Json json{{"folder", report.folder},
            {"how", report.how},
            {"command", report.command},
            {"stopped", report.stopped},
            {"predicted_step_s", report.predicted.value()},
            {"median_step_s", report.median_step().value()},
            {"communication", report.communication},
            {"pipeline_wait", report.pipeline_wait},
            {"utilisation", report.utilisation},
            {"memory", memory},
            {"places", places},
            {"script", report.script},
            {"steps", steps}};
  if (report.resumed_from) json["resumed_from"] = *report.resumed_from;
  if (report.unigram_entropy) json["unigram_entropy"] = *report.unigram_entropy;
  return json.dump(2) + "\n";
}

std::string to_json(const VerifyReport& report) {
  return Json{{"how", report.how},
              {"agrees", report.agrees()},
              {"loss", report.loss},
              {"loss_of_one", report.loss_of_one},
              {"gradient_norm", report.gradient_norm},
              {"gradient_norm_of_one", report.gradient_norm_of_one},
              {"tolerance", report.tolerance},
              {"tensors", report.tensors},
              {"worst", report.worst},
              {"worst_error", report.worst_error},
              {"first_wrong", report.first_wrong},
              {"first_wrong_error", report.first_wrong_error}}
             .dump(2) +
         "\n";
}

std::string to_json(const CompareReport& report) {
  Json tasks = Json::array();
  for (const ComparedTask& t : report.tasks)
    tasks.push_back({{"what", t.what},
                     {"count", t.count},
                     {"predicted_s", t.predicted.value()},
                     {"measured_s", t.measured.value()},
                     {"bytes", t.bytes.value()}});
  return Json{{"folder", report.folder},
              {"steps", report.steps},
              {"ranks", report.ranks},
              {"predicted_step_s", report.predicted_step.value()},
              {"measured_step_s", report.measured_step.value()},
              {"tasks", tasks},
              {"only_predicted", report.only_predicted},
              {"only_measured", report.only_measured}}
             .dump(2) +
         "\n";
}

std::string to_json(const ProbeReport& report) {
  Json json = Json::parse(to_json(report.result));
  json["topology"] = report.file;
  json["how"] = report.how;
  return json.dump(2) + "\n";
}

std::string to_json(const CalibrateReport& report) {
  const Calibration& c = report.calibration;
  Json factors, runs = Json::array();
  for (std::size_t i = 0; i < kFactorNames.size(); ++i)
    factors[std::string(kFactorNames[i])] = {{"factor", c.factors[i]}, {"identified", c.identified[i]}};
  for (const CalibratedRun& run : report.runs)
    runs.push_back({{"folder", run.folder},
                    {"plan", run.plan},
                    {"measured_s", run.measured.value()},
                    {"before_s", run.before.value()},
                    {"after_s", run.after.value()}});
  return Json{{"file", report.file},
              {"factors", factors},
              {"overlap_slowdown", c.overlap_slowdown},
              {"fixed_per_step_s", c.fixed_per_step.value()},
              {"task_error", c.task_error},
              {"step_error", c.step_error},
              {"runs", runs}}
             .dump(2) +
         "\n";
}

std::string to_json(const TuneReport& report) {
  Json tried = Json::array();
  for (const TunedPlan& t : report.tried)
    tried.push_back({{"round", t.round},
                     {"plan", t.plan},
                     {"folder", t.folder},
                     {"predicted_s", t.predicted.value()},
                     {"measured_s", t.measured.value()}});
  return Json{{"topology", report.topology},
              {"tried", tried},
              {"chosen", report.chosen},
              {"description", report.description},
              {"predicted_s", report.predicted.value()},
              {"measured_s", report.measured.value()},
              {"stable", report.stable}}
             .dump(2) +
         "\n";
}

}  // namespace tpplan
