// SPDX-License-Identifier: Apache-2.0
// The state and the residual stream of a token in one dispatch, its arguments, and its workgroup's lanes.

// A bank: [layers, places, layer_floats].
#ifdef RUNNEL_ADDRESSES
layout(buffer_reference, std430, buffer_reference_align = 16) volatile buffer State { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile buffer State4 { vec4 v[]; };
#define state State(uvec2(a.state_low, a.state_high))
#define state4 State4(uvec2(a.state_low, a.state_high))
#else
layout(set = 0, binding = 5) buffer State { float v[]; } state;
layout(set = 0, binding = 5) buffer State4 { vec4 v[]; } state4;
#endif
layout(set = 0, binding = 6) buffer Stream { float v[]; } stream;  // x [D], in and out
layout(set = 0, binding = 6) buffer Stream4 { vec4 v[]; } stream4;
layout(push_constant) uniform Push { StepArgs a; };

layout(constant_id = 2) const uint THREADS = 512;
#define LANE gl_SubgroupInvocationID
#define WARP subgroupBroadcastFirst(gl_SubgroupID)  // of which drivers know that all lanes have the same
const uint kLanes = kSubgroup;
const uint kWarps = THREADS / kLanes;
