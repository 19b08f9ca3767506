// SPDX-License-Identifier: Apache-2.0
// decode_even: a stage from its input to the sums of its columns, a piece of main() for straight code with names of its own.
//   STAGE           0: q k v f, 1: the output projection, 2: gate and up, 3: down
//   from4           where its input lies, in vectors
//   weights_at      the norm's weights, where it has any
//   ASK_NEXT        asks for what comes next
//   FROM_STREAM     the input is the token's embedding
// OF(X) is X of this stage: OF2(kItems) is kItems2. ROW_PARTS, SQUARES: where sums of a slice's columns go. WITH_COLUMNS: what
// else is made of them. HALVES: the input is f16, kExchangedPart of it, and a lane takes half as many vectors, of eight columns.
#if STAGE == 0
#define OF OF0
#define WITH_COLUMNS SUM_GATES
#elif STAGE == 1
#define OF OF1
#elif STAGE == 2
#define OF OF2
#else
#define OF OF3
#endif
#ifndef WITH_COLUMNS
#define WITH_COLUMNS
#endif
#if STAGE == 3
#define HALVES kHalves
#define HAS_WEIGHT false
#define HAS_SQUARES false
#else
#define HALVES false
#define HAS_WEIGHT weights_at != kNone
#if STAGE == 1
#define HAS_SQUARES OUT_NORM != 0
#else
#define HAS_SQUARES true
#endif
#endif
#if STAGE % 2 == 0
#define ROW_PARTS even_parts
#define SQUARES even_squares
#else
#define ROW_PARTS odd_parts
#define SQUARES odd_squares
#endif
{
  // Known to the driver where all subgroups have columns.
  bool works = true;
  if (OF(kSlices) * OF(kWays) < kWarps) works = subgroupAll(warp < OF(kSlices) * OF(kWays));
  const uint way = warp / OF(kSlices), slice = warp - way * OF(kSlices);
  const uint in_team = lane % OF(kTeam), in_tile = lane / OF(kTeam);
  vec4 v[4];
  if (works) {
    const uint at4 = slice * (OF(kSlice) / 4);
#define EVEN_VECTORS (HALVES ? OF(kVectors) / 2 : OF(kVectors))  // of 16 bytes
#define EVEN_VECTOR(J)                                                                                              \
  (HALVES ? min(at4 / 2 + J * kLanes + LANE, OF(kMissing) > 0 ? OF(kColumns) / 8 - 1 : ~0u)                         \
          : vector_at(at4, J, OF(kVectors), OF(kColumns), OF(kMissing)))
    vec4 weight[4];
    [[unroll]] for (uint j = 0; j < 4; ++j) weight[j] = vec4(1.0);
    if (HAS_WEIGHT) {
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        if (j < OF(kVectors)) weight[j] = vectors_here4.v[weights_at / 4 + EVEN_VECTOR(j)];
      }
    }
#ifdef FROM_STREAM
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      if (j < OF(kVectors)) v[j] = stream4.v[EVEN_VECTOR(j)];
    }
#else
    // If there are several vectors, those that are missing are looked at again.
    uvec4 seen[4];
    [[unroll]] for (uint j = 0; j < 4; ++j) seen[j] = uvec4(tag ^ 1);
    [[dont_unroll]] for (;;) {
      uint missing = 0;
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        if (j < EVEN_VECTORS) {
          if (EVEN_VECTORS == 1) {
            seen[j] = act4.v[from4 + EVEN_VECTOR(j)];
          } else if (((((seen[j].x ^ tag) | (seen[j].y ^ tag)) | ((seen[j].z ^ tag) | (seen[j].w ^ tag))) & 1) != 0) {
            seen[j] = act4.v[from4 + EVEN_VECTOR(j)];
          }
        }
      }
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        if (j < EVEN_VECTORS)
          missing |= ((seen[j].x ^ tag) | (seen[j].y ^ tag)) | ((seen[j].z ^ tag) | (seen[j].w ^ tag));
      }
      --poll_limit;
      if (subgroupAll((missing & 1) == 0 || poll_limit < 0)) break;
    }
    if (HALVES) {
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uvec2 two = (j % 2 == 0 ? seen[j / 2].xy : seen[j / 2].zw) & ~kTag;
        v[j] = j < OF(kVectors) ? vec4(unpackHalf2x16(two.x), unpackHalf2x16(two.y)) : vec4(0.0);
      }
    } else {
      [[unroll]] for (uint j = 0; j < 4; ++j) v[j] = j < OF(kVectors) ? uintBitsToFloat(seen[j] & ~kTag) : vec4(0.0);
    }
#endif
    if (OF(kMissing) > 0) {
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        const uint of_lane = HALVES ? 2 * (j / 2 * kLanes + LANE) : vector_of(j, OF(kVectors));
        if (at4 + of_lane >= OF(kColumns) / 4) v[j] = vec4(0.0);
      }
    }
#undef EVEN_VECTORS
#undef EVEN_VECTOR
    if (HAS_SQUARES) {
      precise float squares = 0.0;
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        if (j < OF(kVectors)) {
          [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(v[j][e], v[j][e], squares);
        }
      }
      squares = lanes_sum(squares);
      if (lane == 0 && way == 0) SQUARES[slice] = squares;
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) v[j] *= weight[j];
    WITH_COLUMNS
  }

  // Asked for behind all products, for drivers let these wait for all that was asked for before. Where others have no
  // columns, behind the branch, so that nothing is copied.
  const bool asks_within = OF(kSlices) * OF(kWays) == kWarps;
  if (works) {
    const Columns x = columns_of(v, OF(kVectors), HALVES, slice, in_team);
    const uint shift = SHIFT_OF(slice * OF(kAcross) + in_team);
    [[unroll]] for (uint first = 0; first < OF(kTurns); first += 8) {
      float sums[8];
      [[unroll]] for (uint t = 0; t < 8; ++t) {
        sums[t] = 0.0;
        [[unroll]] for (uint fold = 0; fold < (first + t < OF(kTurns) ? OF(kFolds) : 0); ++fold) {
          const uint i = (first + t) * OF(kFolds) + fold;
#ifdef RUNNEL_DOT
          sums[t] += product(OF(items)[i], x, shift);
#else
          if (fold == 0) sums[t] = product(OF(items)[i], x, shift);
          if (fold == 1) sums[t] += product(OF(items)[i], Columns(v[2], v[3]), shift);
#endif
          if (i + HELD < OF(kItems)) {
            ASK(OF, i + HELD)
          }
        }
      }
      if (asks_within && first + 8 >= OF(kTurns)) ASK_NEXT
      const uint count = first + 8 <= OF(kTurns) ? 8 : OF(kLast);
      add_lanes(sums, count, OF(kTeam), in_team);
      const uint each = count > OF(kTeam) ? count / OF(kTeam) : 1, same = count < OF(kTeam) ? OF(kTeam) / count : 1;
      [[unroll]] for (uint n = 0; n < 8; ++n) {
        if (n < each)
          ROW_PARTS[slice * OF(kRoom) +
                    ((first + in_team / same * each + n) * OF(kWays) + way) * OF(kSide) + in_tile] = sums[n];
      }
    }
  }
  if (!asks_within) ASK_NEXT
  barrier();
}
#undef OF
#undef WITH_COLUMNS
#undef HALVES
#undef HAS_WEIGHT
#undef HAS_SQUARES
#undef ROW_PARTS
#undef SQUARES
#undef STAGE
#undef ASK_NEXT
#undef FROM_STREAM
