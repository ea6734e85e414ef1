#include "executor/train/recorder.hpp"

#include <utility>

namespace tpplan {

Recorder::Span::Span(Recorder& recorder, const Task& task, Bytes bytes, int group)
    : recorder_(recorder),
      label_(label(task)),
      measurement_{.step = recorder.step_,
                   .rank = recorder.rank_,
                   .label = TaskLabel::current(),
                   .stream = task.stream,
                   .start = recorder.now(),
                   .bytes = bytes,
                   .group = group},
      inner_before_(task.stream == StreamKind::compute ? recorder.inner_ : Seconds{}) {}

Recorder::Span::~Span() {
  measurement_.duration = recorder_.now() - measurement_.start;
  // Only the rank's own thread has collectives inside its tasks.
  if (measurement_.stream == StreamKind::compute)
    measurement_.communication = recorder_.inner_ - inner_before_;
  recorder_.add(std::move(measurement_));
}

void Recorder::add(Measurement measurement) {
  if (!keep_) return;
  const std::scoped_lock lock(mutex_);
  measurements_.push_back(std::move(measurement));
}

std::vector<Measurement> Recorder::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(measurements_, {});
}

}  // namespace tpplan
