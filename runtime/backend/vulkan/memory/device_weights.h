// SPDX-License-Identifier: Apache-2.0
// The weights of a model in device memory: a few large buffers of packed matrices and one of f32 vectors.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/vulkan/driver/device.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {

/// Bytes and rows of a part at most; bytes that parts begin at multiples of, so that a step program can count whole
/// groups of loads through.
inline constexpr std::uint64_t kMostPartBytes = 256U << 20;  // also what packing takes on the host
// Rows of a layer's part: one workgroup per row must fit the smallest limit.
inline constexpr std::int64_t kMostPartRows = 65528;
inline constexpr std::uint64_t kMatrixAlignment = 256;

/// A matrix on the device. Where it is larger than one binding it lies in several parts of whole
/// rows, each a dispatch of its own.
struct DeviceMatrix {
  struct Part {
    MatrixPart rows;
    Range range;
  };
  quant::BlockType type = quant::BlockType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<Part> parts;
};

/// Rows of q, k, v and f that are stored alike and so are one matrix.
struct DeviceProjection {
  DeviceMatrix matrix;
  std::uint32_t column = 0;  // of its first row in the projections [T, q | k | v | f]
};

/// A norm over D channels; its vectors as in DeviceLayer.
struct DeviceNorm {
  std::uint32_t weight = kNone;
  std::uint32_t bias = kNone;
};

/// One layer. Vectors are float offsets into the vector buffer, kNone where the model has none.
struct DeviceLayer {
  DeviceNorm norm;
  std::vector<DeviceProjection> projections;
  std::uint32_t qkv_bias = kNone;  // [channels of q, k, v]
  std::uint32_t f_bias = kNone;
  std::uint32_t conv = kNone;  // [channels of q, k, v; taps]
  std::uint32_t feature_map = kNone;
  std::uint32_t read_bias = kNone;
  std::uint32_t head_read_bias = kNone;
  std::uint32_t f_up = kNone;  // of a recurrence
  std::uint32_t r_bias = kNone;
  std::uint32_t lower_bound = kNone;
  std::uint32_t maps = kNone;  // matrices and biases of q's map, then of k's
  std::uint32_t g_norm = kNone;
  std::uint32_t g_norm_bias = kNone;
  // For a removal.
  std::uint32_t log_rate = kNone;
  std::uint32_t removal_key = kNone;
  std::uint32_t key_rate = kNone;
  std::uint32_t bonus = kNone;
  // For shifted ops; their products are apart, because their inputs are.
  std::uint32_t lerp = kNone;  // [inputs, D]
  std::uint32_t channel_lerp = kNone;
  std::uint32_t v_mix_bias = kNone;
  DeviceMatrix q, k, v;
  // For f, r, the output gate and the mix of values; not all are there.
  std::array<DeviceMatrix, 4> down;
  std::array<DeviceMatrix, 4> up;
  DeviceMatrix o_proj;
  DeviceNorm channel_norm;
  /// SwiGLU: one with alternating rows, or gate and up. Squared ReLU: up. Without a channel mix: none.
  std::vector<DeviceMatrix> gate_up;
  DeviceMatrix down_proj;
};

class DeviceWeights {
 public:
  static Result<std::unique_ptr<DeviceWeights>> create(Device& device, const ModelConfig& config,
                                                       const Weights& weights,
                                                       const LoadProgress& progress);

  DeviceMatrix embeddings;
  std::vector<DeviceLayer> layers;
  DeviceNorm embedding_norm;
  DeviceNorm final_norm;
  DeviceMatrix head;  // the same place as embeddings where they are tied

  /// The whole buffer that holds a matrix's first part.
  Range block_of(const DeviceMatrix& m) const;
  Range vectors() const { return {vectors_.get(), 0, vectors_.bytes}; }
  std::uint64_t bytes() const;

 private:
  std::vector<Buffer> blocks_;
  Buffer vectors_;
};

}  // namespace runnel::vulkan
