#pragma once

#include <cstdint>
#include <string_view>

#include "simulator/document/document.hpp"
#include "simulator/model/model_spec.hpp"

namespace tpplan {

// Larger than any model that could be meant, small enough that no product of two of them overflows 63 bits.
// A model that combines them beyond counting is refused by require_possible.
inline constexpr std::int64_t kMostLayers = 100'000;
inline constexpr std::int64_t kMostHeads = 1'000'000;
inline constexpr std::int64_t kMostExperts = 100'000;
inline constexpr std::int64_t kWidest = 10'000'000;
inline constexpr std::int64_t kLongest = 1'000'000'000;
inline constexpr std::int64_t kMostBatchTokens = 1LL << 60;

/// Fails at `place` unless the KV heads divide the heads.
void require_kv_heads(const Value& place, const ModelSpec& model);

/// head_dim = hidden / heads; fails at `place` when that is not whole.
void set_head_dim(const Value& place, ModelSpec& model);

/// Fails when the model as a whole is beyond counting (10^17 parameters).
void require_possible(const Value& document, const ModelSpec& model);

/// A batch with its unit: "4194304 tokens" or "2048 samples".
struct Batch {
  std::int64_t amount = 0;
  bool in_tokens = true;
  /// Throws std::invalid_argument when samples are given and `sequence` is 0, and beyond kMostBatchTokens.
  [[nodiscard]] std::int64_t tokens(int sequence) const;
};

/// Throws std::invalid_argument with what would be right. Accepts 4M and 2k as 4 x 2^20 and 2 x 2^10.
[[nodiscard]] Batch parse_batch(std::string_view text);

}  // namespace tpplan
