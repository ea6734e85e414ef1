#include "simulator/topology/device_reader.hpp"

#include "simulator/topology/ranges.hpp"
#include "simulator/topology/topology_reader.hpp"

namespace tpplan {
namespace {

/// Rates by precision: {bf16: 312 TFLOP/s, ...}.
void read_rates(const Value& value, std::array<FlopsPerSecond, 6>& rates) {
  MapReader map = value.map();
  for (std::size_t i = 0; i < kPrecisionNames.size(); ++i)
    if (const auto rate = map.optional(std::string(kPrecisionNames[i]))) rates[i] = compute_rate(*rate);
  map.finish();
}

void read_attention(const Value& value, DeviceSpec& device) {
  MapReader map = value.map();
  for (std::size_t i = 0; i < device.attention.size(); ++i)
    if (const auto rate = map.optional("flash" + std::to_string(i + 1)))
      device.attention[i] = compute_rate(*rate);
  map.finish();
}

/// - {m: 256, n: 768, k: 768, fp32: 150 GFLOP/s}
void read_products(const Value& value, DeviceSpec& device) {
  device.products.clear();
  for (const Value& entry : value.list()) {
    MapReader map = entry.map();
    MeasuredProduct product{map.required("m").number(1, 1e12), map.required("n").number(1, 1e12),
                            map.required("k").number(1, 1e12)};
    for (std::size_t i = 0; i < kPrecisionNames.size(); ++i)
      if (const auto rate = map.optional(std::string(kPrecisionNames[i]))) {
        product.precision = static_cast<Precision>(i);
        product.rate = compute_rate(*rate);
        device.products.push_back(product);
      }
    map.finish();
  }
}

/// - {samples: 4, heads: 12, head_dim: 64, sequence: 64, backward: false, precision: fp32, time: 500 us}
void read_attentions(const Value& value, DeviceSpec& device) {
  device.attentions.clear();
  for (const Value& entry : value.list()) {
    MapReader map = entry.map();
    MeasuredAttentionRate measured;
    measured.samples = map.required("samples").number(1, 1e9);
    measured.heads = map.required("heads").number(1, 1e9);
    measured.head_dim = map.required("head_dim").number(1, 1e9);
    measured.sequence = map.required("sequence").number(1, 1e9);
    measured.backward = map.required("backward").flag();
    measured.precision = map.required("precision").choice<Precision>(kPrecisionNames);
    measured.time = map.required("time").seconds();
    map.finish();
    device.attentions.push_back(measured);
  }
}

/// - {what: all_reduce, size: 4, stride: 1, bytes: 524288 B, time: 900 us}
void read_collectives(const Value& value, DeviceSpec& device) {
  device.collectives.clear();
  for (const Value& entry : value.list()) {
    MapReader map = entry.map();
    MeasuredCollective measured;
    measured.what = map.required("what").choice<Collective>(kCollectiveNames);
    measured.shape.size = static_cast<int>(map.required("size").integer(2, 1 << 20));
    measured.shape.stride = static_cast<int>(map.required("stride").integer(1, 1 << 20));
    measured.bytes = map.required("bytes").bytes();
    measured.seconds = map.required("time").seconds();
    map.finish();
    device.collectives.push_back(measured);
  }
}

void read_nvlink(const Value& value, DeviceSpec& device) {
  MapReader map = value.map();
  device.nvlink_bandwidth = link_rate(map.required("bandwidth"));
  if (const auto share = map.optional("efficiency")) device.nvlink_efficiency = share->number(0.01, 1);
  if (const auto latency = map.optional("latency")) device.nvlink_latency = link_latency(*latency);
  map.finish();
}

}  // namespace

DeviceSpec device_from(const Value& value, const std::optional<DeviceSpec>& base) {
  DeviceSpec device = base.value_or(DeviceSpec{});
  MapReader map = value.map();
  if (base) map.ignore("base");
  const auto given = [&](const char* key) {
    return base ? map.optional(key) : std::optional(map.required(key));
  };
  if (const auto name = given("name")) device.name = name->text();
  if (const auto source = map.optional("source")) device.source = source->text();
  if (const auto memory = given("memory")) device.memory = capacity(*memory);
  if (const auto rate = given("memory_bandwidth")) device.memory_bandwidth = link_rate(*rate);
  if (const auto share = map.optional("memory_efficiency")) device.memory_efficiency = share->number(0.01, 1);
  if (const auto count = given("multiprocessors"))
    device.multiprocessors = static_cast<int>(count->integer(1, 100'000));
  if (const auto rates = given("peak")) read_rates(*rates, device.peak);
  if (const auto rates = map.optional("sustained")) read_rates(*rates, device.sustained);
  if (const auto rates = map.optional("attention")) read_attention(*rates, device);
  if (const auto products = map.optional("products")) read_products(*products, device);
  if (const auto times = map.optional("attentions")) read_attentions(*times, device);
  if (const auto times = map.optional("collectives")) read_collectives(*times, device);
  if (const auto launch = map.optional("collective_base")) device.collective_base = launch->seconds();
  if (const auto floor = map.optional("kernel_floor")) device.kernel_floor = link_latency(*floor);
  if (const auto context = map.optional("context")) device.context = capacity(*context);
  if (const auto kept = map.optional("communicator")) device.communicator = capacity(*kept);
  if (const auto able = map.optional("in_switch_reduction")) device.in_switch_reduction = able->flag();
  if (const auto nvlink = map.optional("nvlink")) read_nvlink(*nvlink, device);
  map.finish();
  for (std::size_t i = 0; i < device.peak.size(); ++i)
    if (device.sustained[i] > device.peak[i])
      value.fail("sustained " + std::string(kPrecisionNames[i]) + " rate is above its peak");
  return device;
}

DeviceSpec read_device(const std::filesystem::path& file) {
  return device_from(read_document(file), std::nullopt);
}

}  // namespace tpplan
