#include "executor/cpu/gemm.hpp"

#include <array>
#include <cassert>
#include <dnnl.hpp>
#include <map>
#include <stdexcept>

namespace tpplan {
namespace {

dnnl::memory::data_type type_of(DType type) {
  switch (type) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      break;
  }
  throw std::logic_error("fp16 products are taken in fp32");
}

dnnl::memory::desc descriptor(Tensor x, bool transposed) {
  if (transposed) return {{x.cols, x.rows}, type_of(x.type), dnnl::memory::dims{1, x.stride}};
  return {{x.rows, x.cols}, type_of(x.type), dnnl::memory::dims{x.stride, 1}};
}

struct Key {
  std::array<std::int64_t, 6> sizes;
  std::array<int, 7> kinds;
  auto operator<=>(const Key&) const = default;
};

struct Product {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, bias;
};

}  // namespace

struct Gemm::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Product> products;
};

Gemm::Gemm() : state_(std::make_unique<State>()) {}
Gemm::~Gemm() = default;

void Gemm::run(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta, Tensor bias) {
  assert((beta == 0 || beta == 1) && a.type == b.type);
  const std::int64_t depth = transpose_a ? a.rows : a.cols;
  assert(depth == (transpose_b ? b.cols : b.rows) && c.rows == (transpose_a ? a.cols : a.rows) &&
         c.cols == (transpose_b ? b.rows : b.cols));
  const Key key{{c.rows, c.cols, depth, a.stride, b.stride, c.stride},
                {static_cast<int>(c.type), static_cast<int>(a.type), transpose_a ? 1 : 0, transpose_b ? 1 : 0,
                 beta == 1 ? 1 : 0, bias.data != nullptr ? 1 : 0, static_cast<int>(bias.type)}};
  auto found = state_->products.find(key);
  if (found == state_->products.end()) {
    const auto a_desc = descriptor(a, transpose_a), b_desc = descriptor(b, transpose_b),
               c_desc = descriptor(c, false);
    dnnl::primitive_attr attributes;
    if (beta == 1) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::engine& engine = state_->engine;
    Product product;
    if (bias.data != nullptr) {
      const dnnl::memory::desc bias_desc({1, c.cols}, type_of(bias.type), dnnl::memory::dims{c.cols, 1});
      product.primitive = dnnl::matmul({{a_desc, b_desc, bias_desc, c_desc}, attributes, engine});
      product.bias = dnnl::memory(bias_desc, engine, nullptr);
    } else {
      product.primitive = dnnl::matmul({{a_desc, b_desc, c_desc}, attributes, engine});
    }
    product.a = dnnl::memory(a_desc, engine, nullptr);
    product.b = dnnl::memory(b_desc, engine, nullptr);
    product.c = dnnl::memory(c_desc, engine, nullptr);
    found = state_->products.emplace(key, std::move(product)).first;
  }
  Product& product = found->second;
  product.a.set_data_handle(a.data);
  product.b.set_data_handle(b.data);
  product.c.set_data_handle(c.data);
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, product.a}, {DNNL_ARG_WEIGHTS, product.b}, {DNNL_ARG_DST, product.c}};
  if (bias.data != nullptr) {
    product.bias.set_data_handle(bias.data);
    arguments.emplace(DNNL_ARG_BIAS, product.bias);
  }
  product.primitive.execute(state_->stream, arguments);
}

}  // namespace tpplan
