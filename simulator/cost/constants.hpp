#pragma once

#include "simulator/units/units.hpp"

namespace tpplan {

/// Constants of kernels and of software, by kind. What belongs to one device or one link stands in its file
/// under topologies/. Defaults are typical values; docs/cost-model.md gives the source and the range of each,
/// and a calibration may replace any of them.
struct KernelConstants {
  // Matrix products
  double product_half_k =
      130;  // K at which half of the sustained rate is reached: prologue and epilogue of a tile
  double tile_128x128 = 0.92;  // rate of smaller tiles over 128x256 ones
  double tile_64x128 = 0.75;
  double quantised_waves = 20;   // beyond so many waves the last one no longer shows
  double unaligned_rate = 0.15;  // 16-bit operands whose rows are not multiples of 8 elements

  // Attention that writes its s x s scores
  double naive_product_rate = 0.75;    // of its two batched products, over the sustained rate
  double fused_softmax_bytes = 7;      // per score: scale, mask, softmax, dropout in one kernel, 16 bit
  double separate_softmax_bytes = 26;  // each its own kernel, in fp32
  double naive_backward = 1.45;        // bytes of the backward over the forward

  // Fused attention
  double flash_half_sequence = 400;   // s at which half of the device's rate is reached
  double flash_narrow_head = 0.9;     // rate as the head size goes to zero, over that at 128: linear between
  double flash_backward_flops = 2.5;  // over the forward: five products instead of two
  double flash_backward_rate = 0.71;

  // Element-wise kernels, bytes moved forward per token and hidden unit: norms, residuals, dropout, rotary,
  // copies
  double eager_bytes = 35;
  double jit_bytes = 25;
  double compiled_bytes = 14;
  double unfused_norm_bytes = 70;  // of one norm written as separate fp32 kernels
  double activation_bytes_fused =
      2;  // per element read or written by the MLP activation: 3 f gated, 2 f plain
  double activation_eager_factor = 1.6;
  double elementwise_backward = 2.6;  // over the forward
  double elementwise_kernels = 14;    // launches a layer forward, for their floor

  // Head and loss, bytes per logit, forward and backward together
  double fused_loss_bytes = 12;
  double eager_loss_bytes = 35;

  // Optimizer: bytes moved per parameter held (fp32 master, two moments, gradient, 16-bit copy)
  double optimizer_bytes = 38;

  // Host
  double backward_launches = 1.8;                // kernels of a backward over those of a forward
  Seconds collective_launch = microseconds(30);  // host time that one tensor-parallel collective adds

  // Collectives
  double tensor_collectives = 1;          // time of those of the tensor group over what collective() says
  double tensor_network_collectives = 1;  // the same for a tensor group that spans nodes
  Seconds collective_base = microseconds(50);  // launch and skew of one collective inside training
  double tree_bandwidth = 0.92;                // of a ring's, NCCL's double binary tree
  double nvls_bandwidth = 1.35;                // all-reduce in the switch over a ring

  // Overlap
  double user_buffer_exposed = 0.4;  // share of tensor-parallel time that stays visible
  double async_exposed = 0.5;
  double wgrad_hides = 0.8;      // share of a weight-gradient product that can hide a collective
  double transfer_blocks = 0.5;  // share of a pipeline transfer that blocks the receiver's compute
  double transfer_blocks_overlapped = 0.3;
  double overlap_slowdown = 0.08;          // compute beside a data-parallel collective
  double straggler_per_doubling = 0.0045;  // of nodes
};

}  // namespace tpplan
