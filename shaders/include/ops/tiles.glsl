// SPDX-License-Identifier: Apache-2.0
// Tiles of 16 x 16 on matrix units: f16 operands, f32 sums. Written for VK_NV_cooperative_matrix, whose types have no
// use: a type of its own for each use lets the host translate them to VK_KHR_cooperative_matrix (khr_matrices.h).
// Operands lie in arrays of uvec4 (8 f16 an element) or uint (2); places and strides are in elements, rows begin at
// multiples of 16 bytes. All lanes of a subgroup must call.
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(constant_id = kRightTile) const uint kRightRows = 16;
layout(constant_id = kNarrowTile) const uint kNarrowRows = 16;

#define LEFT fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define RIGHT fcoopmatNV<16, gl_ScopeSubgroup, kRightRows, 16>
#define SUMS fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define NARROW fcoopmatNV<16, gl_ScopeSubgroup, kNarrowRows, 16>  // sums as f16
#define NO_SUMS SUMS(0.0)

#define LOAD_ROWS(TILE, BUFFER, AT, STRIDE) coopMatLoadNV(TILE, BUFFER, AT, STRIDE, false)
#define LOAD_COLUMNS(TILE, BUFFER, AT, STRIDE) coopMatLoadNV(TILE, BUFFER, AT, STRIDE, true)
#define STORE_ROWS(TILE, BUFFER, AT, STRIDE) coopMatStoreNV(TILE, BUFFER, AT, STRIDE, false)
#define MULTIPLY_ADD(A, B, C) coopMatMulAddNV(A, B, C)

const float kLargestF16 = 65504.0;

/// Stores FACTOR * sums as f16.
#define STORE_NARROW(TILE, FACTOR, BUFFER, AT, STRIDE)                                    \
  {                                                                                       \
    NARROW narrow;                                                                        \
    [[unroll]] for (int e = 0; e < narrow.length(); ++e)                                  \
      narrow[e] = float16_t(clamp((FACTOR) * TILE[e], -kLargestF16, kLargestF16));        \
    STORE_ROWS(narrow, BUFFER, AT, STRIDE);                                               \
  }
