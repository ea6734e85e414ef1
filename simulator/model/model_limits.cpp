#include "simulator/model/model_limits.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace tpplan {

void require_kv_heads(const Value& place, const ModelSpec& model) {
  if (model.kv_heads > model.heads || model.heads % model.kv_heads != 0)
    place.fail(fmt::format("{} KV heads do not divide {} heads", model.kv_heads, model.heads));
}

void set_head_dim(const Value& place, ModelSpec& model) {
  if (model.hidden % model.heads != 0)
    place.fail(fmt::format("{} heads do not divide the hidden size {}; give head_dim if that is meant",
                           model.heads, model.hidden));
  model.head_dim = static_cast<int>(model.hidden / model.heads);
}

void require_possible(const Value& document, const ModelSpec& model) {
  const double h = static_cast<double>(model.hidden);
  std::int64_t widest = model.ffn;
  if (model.moe) widest = std::max<std::int64_t>({widest, model.moe->expert_ffn, model.moe->shared_ffn});
  const double per_layer =
      h *
      (2.0 * static_cast<double>(model.q_width() + model.kv_width()) + 3.0 * static_cast<double>(widest)) *
      (model.moe ? model.moe->experts : 1);
  if (per_layer * model.layers + h * static_cast<double>(model.vocabulary + model.learned_positions) > 1e17)
    document.fail(
        "the model would have more than 10^17 parameters; check layers, hidden, ffn and vocabulary");
}

std::int64_t Batch::tokens(int sequence) const {
  if (in_tokens) return amount;
  if (sequence <= 0)
    throw std::invalid_argument("a batch in samples needs the sequence length; give it in tokens");
  if (amount > kMostBatchTokens / sequence)
    throw std::invalid_argument(
        fmt::format("{} samples of {} tokens are out of range; give fewer samples", amount, sequence));
  return amount * sequence;
}

Batch parse_batch(std::string_view text) {
  const auto fail = [&](std::string_view why) -> Batch {
    throw std::invalid_argument(
        fmt::format("'{}' {}; write a batch as '4194304 tokens' or '2048 samples'", text, why));
  };
  Batch batch;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, batch.amount);
  if (error != std::errc{}) return fail("is not a whole number with a unit");
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  std::int64_t scale = 1;
  if (unit.starts_with('k')) scale = 1 << 10;
  if (unit.starts_with('M')) scale = 1 << 20;
  if (scale > 1) unit.remove_prefix(1);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit != "tokens" && unit != "samples")
    return fail(unit.empty() ? "has no unit" : "has an unknown unit");
  batch.in_tokens = unit == "tokens";
  if (batch.amount < 1 || batch.amount > (1LL << 40) / scale) return fail("is out of range");
  batch.amount *= scale;
  return batch;
}

}  // namespace tpplan
