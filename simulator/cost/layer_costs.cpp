#include <algorithm>
#include <cmath>

#include "simulator/cost/plan_costs.hpp"

// T tokens of a micro-batch (samples x s), h hidden, q and kv widths of queries and of keys or values, f MLP
// width, V padded vocabulary, t tensor-parallel ranks.

namespace tpplan {

Phase& Phase::operator+=(const Phase& b) {
  ideal += b.ideal;
  product_loss += b.product_loss;
  attention_loss += b.attention_loss;
  memory_bound += b.memory_bound;
  host += b.host;
  recompute += b.recompute;
  recompute_collectives += b.recompute_collectives;
  tensor_parallel += b.tensor_parallel;
  flops += b.flops;
  tensor_parallel_bytes += b.tensor_parallel_bytes;
  return *this;
}

Phase operator*(Phase a, double k) {
  for (Seconds* part : {&a.ideal, &a.product_loss, &a.attention_loss, &a.memory_bound, &a.host, &a.recompute,
                        &a.recompute_collectives, &a.tensor_parallel})
    *part *= k;
  a.flops *= k;
  a.tensor_parallel_bytes *= k;
  return a;
}

namespace {

class LayerCoster {
 public:
  LayerCoster(const Problem& problem, const CostModel& model, const LayerKey& key)
      : problem_(problem),
        spec_(problem.model),
        run_(problem.runtime),
        model_(model),
        key_(key),
        c_(model.constants()),
        tokens_(static_cast<double>(key.micro_batch) * problem.sequence),
        t_(key.tp),
        peak_(problem.topology.device.peak_rate(problem.precision)),
        group_(group_path(problem.topology, {key.tp, 1})) {
    if (peak_.value() <= 0) peak_ = problem.topology.device.sustained_rate(problem.precision);
  }

  [[nodiscard]] LayerCosts all() const;

 private:
  struct Product {
    Seconds forward, input_gradient, weight_gradient;
    Flops flops;  // of one of the three
  };

  [[nodiscard]] Product product(double in, double out, Precision precision) const;
  static void spend(Phase& phase, Seconds time, Flops flops, FlopsPerSecond peak, Seconds Phase::*loss);
  [[nodiscard]] Passes attention_core() const;
  [[nodiscard]] Phase element_wise() const;
  [[nodiscard]] Passes layer() const;
  [[nodiscard]] Passes head() const;
  [[nodiscard]] Passes embedding() const;
  /// What a rank moves in each half of an all-reduce: (n-1)/n of the message.
  [[nodiscard]] Bytes activation_moved() const {
    return Bytes{tokens_ * h() * element_bytes(activation_precision()) * (t_ - 1) / t_};
  }
  [[nodiscard]] Seconds activation_collective(Collective what) const {
    return (group_.nodes > 1 ? c_.tensor_network_collectives : c_.tensor_collectives) *
           model_.collective(what, Bytes{tokens_ * h() * element_bytes(activation_precision())}, group_);
  }
  [[nodiscard]] Precision activation_precision() const {
    return problem_.precision == Precision::fp32 || problem_.precision == Precision::tf32 ? problem_.precision
           : problem_.precision == Precision::fp16                                        ? Precision::fp16
                                                                                          : Precision::bf16;
  }
  [[nodiscard]] double h() const { return static_cast<double>(spec_.hidden); }
  [[nodiscard]] double kv_per_rank() const {
    return std::max<double>(static_cast<double>(spec_.kv_width()) / t_, spec_.head_dim);
  }
  void add_tensor_parallel(Passes& passes, Seconds weight_gradients) const;
  /// `outputs`: the products that end attention and MLP.
  void add_recompute(Passes& passes, const Passes& core, const std::array<Product, 2>& outputs) const;
  void add_host(Passes& passes, double kernels, double collectives_forward,
                double collectives_backward) const;

  const Problem& problem_;
  const ModelSpec& spec_;
  const RuntimeOptions& run_;
  const CostModel& model_;
  const LayerKey& key_;
  const KernelConstants& c_;
  double tokens_;
  double t_;
  FlopsPerSecond peak_;
  GroupPath group_;
};

LayerCoster::Product LayerCoster::product(double in, double out, Precision precision) const {
  Product p;
  p.flops = Flops{2 * tokens_ * in * out};
  p.forward = model_.product({.m = tokens_, .n = out, .k = in, .precision = precision});
  p.input_gradient = model_.product({.m = tokens_, .n = in, .k = out, .precision = precision});
  // The weight gradient is added to an accumulator: one more read, and its own element size.
  const double accumulated = in * out * (2 * run_.gradient_bytes - element_bytes(precision));
  p.weight_gradient = model_.product(
      {.m = in, .n = out, .k = tokens_, .extra_bytes = std::max(0.0, accumulated), .precision = precision});
  return p;
}

void LayerCoster::spend(Phase& phase, Seconds time, Flops flops, FlopsPerSecond peak, Seconds Phase::*loss) {
  const Seconds ideal = flops / peak;
  phase.ideal += ideal;
  phase.*loss += time - ideal;
  phase.flops += flops;
}

Passes LayerCoster::attention_core() const {
  Passes core;
  const double samples = key_.micro_batch;
  const double heads = spec_.heads / t_;
  const double s = problem_.sequence;
  const double d = spec_.head_dim;
  if (run_.attention >= AttentionKernel::flash1) {
    AttentionShape shape{.samples = samples,
                         .heads = heads,
                         .head_dim = d,
                         .sequence = s,
                         .kernel = run_.attention,
                         .precision = activation_precision()};
    const Flops forward{2 * samples * heads * s * s * d};
    spend(core.forward, model_.attention(shape), forward, peak_, &Phase::attention_loss);
    shape.backward = true;
    spend(core.backward, model_.attention(shape), 2 * forward, peak_, &Phase::attention_loss);
    return core;
  }
  // Scores and context as two batched products over the full square, and the kernels between them.
  const Precision precision = activation_precision();
  const bool aligned = spec_.head_dim % 8 == 0;
  const Seconds products =
      (model_.product(
           {.m = s, .n = s, .k = d, .batch = samples * heads, .precision = precision, .aligned = aligned}) +
       model_.product(
           {.m = s, .n = d, .k = s, .batch = samples * heads, .precision = precision, .aligned = aligned})) /
      c_.naive_product_rate;
  const Flops flops{4 * samples * heads * s * s * d};
  spend(core.forward, products, flops, peak_, &Phase::attention_loss);
  spend(core.backward, 2 * products, 2 * flops, peak_, &Phase::attention_loss);
  const bool fused = run_.attention == AttentionKernel::fused_softmax;
  const double bytes = samples * heads * s * s * (fused ? c_.fused_softmax_bytes : c_.separate_softmax_bytes);
  const double kernels = fused ? 1 : 6;
  core.forward.attention_loss += model_.streaming(Bytes{bytes}, kernels);
  core.backward.attention_loss += model_.streaming(Bytes{bytes * c_.naive_backward}, kernels);
  return core;
}

Phase LayerCoster::element_wise() const {
  // Norms, residuals and dropout are replicated on every tensor rank unless the sequence is split.
  const double share = key_.sequence_parallel ? t_ : 1;
  const double per_unit = run_.fusion == Fusion::eager ? c_.eager_bytes
                          : run_.fusion == Fusion::jit ? c_.jit_bytes
                                                       : c_.compiled_bytes;
  double bytes = tokens_ * h() / share * per_unit;
  if (!run_.fused_norm) bytes += tokens_ * h() / share * c_.unfused_norm_bytes * spec_.norms_per_layer;
  const double activation =
      static_cast<double>(spec_.ffn) / t_ * (spec_.gated_mlp ? 3 : 2) * c_.activation_bytes_fused;
  bytes += tokens_ * activation * (run_.fusion == Fusion::eager ? c_.activation_eager_factor : 1);
  const double width = element_bytes(activation_precision()) / 2;
  Phase phase;
  phase.memory_bound = model_.streaming(Bytes{bytes * width}, c_.elementwise_kernels);
  return phase;
}

void LayerCoster::add_tensor_parallel(Passes& passes, Seconds weight_gradients) const {
  if (key_.tp == 1) return;
  const bool split = key_.sequence_parallel;
  const Seconds half = split ? activation_collective(Collective::all_gather) +
                                   activation_collective(Collective::reduce_scatter)
                             : activation_collective(Collective::all_reduce);
  Seconds forward = 2 * half;
  // Backward with a split sequence: gather the gradient before each row product (seen), gather the input
  // again for the weight gradient and scatter the input gradient (both can hide behind products).
  Seconds seen = split ? 2 * activation_collective(Collective::all_gather) : Seconds{0};
  Seconds hideable = split ? 2 * half : 2 * half;
  switch (run_.tp_overlap) {
    case TpOverlap::none:
      seen += hideable;
      break;
    case TpOverlap::wgrad:
      seen += std::max(Seconds{0}, hideable - weight_gradients * c_.wgrad_hides);
      break;
    case TpOverlap::async:
      forward *= c_.async_exposed;
      seen = (seen + hideable) * c_.async_exposed;
      break;
    case TpOverlap::user_buffers:
      forward *= c_.user_buffer_exposed;
      seen = (seen + hideable) * c_.user_buffer_exposed;
      break;
  }
  passes.forward.tensor_parallel += forward;
  passes.backward.tensor_parallel += seen;
  // Four halves of an all-reduce forward, four backward, and with a split sequence the two gathers more.
  passes.forward.tensor_parallel_bytes += 4 * activation_moved();
  passes.backward.tensor_parallel_bytes += (split ? 6 : 4) * activation_moved();
}

void LayerCoster::add_recompute(Passes& passes, const Passes& core,
                                const std::array<Product, 2>& outputs) const {
  switch (key_.recompute) {
    case Recompute::none:
      return;
    case Recompute::selective:
      if (run_.selective_saves_products) {
        passes.backward.recompute += passes.forward.memory_bound + outputs[0].forward + outputs[1].forward;
      } else if (run_.selective_recomputes_cheap) {
        passes.backward.recompute += core.forward.total() + passes.forward.memory_bound;
        passes.backward.flops += core.forward.flops;
      } else {
        passes.backward.recompute += core.forward.total();
        passes.backward.flops += core.forward.flops;
      }
      return;
    case Recompute::full: {
      // Nothing in the layer needs the MLP's output: its product and that one's sum may be left out.
      Phase again = passes.forward;
      Seconds product{};
      if (run_.recompute_ends_before_output) {
        product = outputs[1].forward;
        again.flops -= outputs[1].flops;
        if (key_.tp > 1) {
          again.tensor_parallel -= activation_collective(key_.sequence_parallel ? Collective::reduce_scatter
                                                                                : Collective::all_reduce);
          again.tensor_parallel_bytes -= activation_moved() * (key_.sequence_parallel ? 1 : 2);
        }
      }
      passes.backward.recompute += again.total() - product;
      passes.backward.recompute_collectives += again.tensor_parallel;
      passes.backward.flops += again.flops;
      passes.backward.tensor_parallel_bytes += again.tensor_parallel_bytes;
      return;
    }
  }
}

void LayerCoster::add_host(Passes& passes, double kernels, double collectives_forward,
                           double collectives_backward) const {
  if (run_.cuda_graphs) return;
  const bool parallel = key_.tp > 1;
  const auto host = [&](double launches, double collectives) {
    return run_.launch * launches + c_.collective_launch * (parallel ? collectives : 0);
  };
  const double again = key_.recompute == Recompute::full ? 1 : 0;
  const Seconds forward = host(kernels, collectives_forward);
  const Seconds backward =
      host(kernels * (c_.backward_launches + again), collectives_backward + again * collectives_forward);
  passes.forward.host += std::max(Seconds{0}, forward - passes.forward.total());
  passes.backward.host += std::max(Seconds{0}, backward - passes.backward.total());
}

Passes LayerCoster::layer() const {
  Passes passes = attention_core();
  const Passes core = passes;
  const double q = static_cast<double>(spec_.q_width()) / t_;
  const double f = static_cast<double>(spec_.ffn) / t_;
  const std::array products{
      product(h(), q + 2 * kv_per_rank(), problem_.precision), product(q, h(), problem_.precision),
      product(h(), spec_.gated_mlp ? 2 * f : f, problem_.precision), product(f, h(), problem_.precision)};
  Seconds weight_gradients;
  for (const Product& p : products) {
    spend(passes.forward, p.forward, p.flops, peak_, &Phase::product_loss);
    spend(passes.backward, p.input_gradient + p.weight_gradient, 2 * p.flops, peak_, &Phase::product_loss);
    weight_gradients += p.weight_gradient;
  }
  const Phase kernels = element_wise();
  passes.forward += kernels;
  passes.backward += kernels * c_.elementwise_backward;
  add_tensor_parallel(passes, weight_gradients);
  add_recompute(passes, core, {products[1], products[3]});
  const double collectives = key_.sequence_parallel ? 4 : 2;
  add_host(passes, run_.kernels_per_layer, collectives, key_.sequence_parallel ? 6 : 2);
  return passes;
}

Passes LayerCoster::head() const {
  Passes passes;
  const double rows = static_cast<double>(padded_vocabulary(spec_.vocabulary, key_.tp)) / t_;
  const Product logits = product(h(), rows, activation_precision());
  spend(passes.forward, logits.forward, logits.flops, peak_, &Phase::product_loss);
  spend(passes.backward, logits.input_gradient + logits.weight_gradient, 2 * logits.flops, peak_,
        &Phase::product_loss);
  const double per_logit = run_.fused_cross_entropy ? c_.fused_loss_bytes : c_.eager_loss_bytes;
  const double loss_rows = run_.parallel_cross_entropy ? rows : rows * t_;
  const Seconds loss = model_.streaming(Bytes{tokens_ * loss_rows * per_logit}, 4) / 2;
  passes.forward.memory_bound += loss;
  passes.backward.memory_bound += loss;
  if (key_.tp > 1) {
    // Maximum, predicted logit and sum of exponentials of each token; then the gradient of the head's input.
    passes.forward.tensor_parallel +=
        run_.parallel_cross_entropy
            ? 3 * model_.collective(Collective::all_reduce, Bytes{tokens_ * 4}, group_)
            : model_.collective(Collective::all_gather,
                                Bytes{tokens_ * loss_rows * element_bytes(activation_precision())}, group_);
    passes.backward.tensor_parallel +=
        activation_collective(key_.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce);
    if (key_.sequence_parallel)
      passes.forward.tensor_parallel += activation_collective(Collective::all_gather);
  }
  return passes;
}

Passes LayerCoster::embedding() const {
  Passes passes;
  const double share = key_.sequence_parallel ? t_ : 1;
  const double row = tokens_ * h() * element_bytes(activation_precision());
  passes.forward.memory_bound += model_.streaming(Bytes{row * (1 + 2 / share)}, 3);
  passes.backward.memory_bound += model_.streaming(Bytes{row * (1 + 2 / share) * 2}, 3);
  if (key_.tp > 1) {
    passes.forward.tensor_parallel +=
        activation_collective(key_.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce);
    if (key_.sequence_parallel)
      passes.backward.tensor_parallel += activation_collective(Collective::all_gather);
  }
  return passes;
}

LayerCosts LayerCoster::all() const {
  LayerCosts costs;
  costs.layer = layer();
  costs.embedding = embedding();
  costs.head = head();
  costs.parameters = block_parameters(spec_, key_.tp);
  costs.boundary =
      Bytes{tokens_ * h() * element_bytes(activation_precision()) / (key_.sequence_parallel ? t_ : 1)};
  return costs;
}

}  // namespace

LayerCosts layer_costs(const Problem& problem, const CostModel& model, const LayerKey& key) {
  return LayerCoster(problem, model, key).all();
}

}  // namespace tpplan
