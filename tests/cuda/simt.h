// SPDX-License-Identifier: Apache-2.0
// Runs device code on the host, every thread of a grid as a fiber: enough of a GPU for the decode
// kernel (cuda/device/async.cuh). Blocks take turns at random, bulk copies land late and in any
// order, shared memory starts poisoned. A grid that no longer moves is a deadlock, and reported; where threads meet
// again and again while they look for work, it is their poll limit that ends it.
#pragma once

#define RUNNEL_SIMT

#include <vector_functions.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace runnel::simt {

class Grid;

struct Fiber {
#ifdef __x86_64__
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  std::unique_ptr<unsigned char[]> stack;
  int block = 0, thread = 0;
  bool done = false;
  const int* watched = nullptr;  // sleeps while *watched == seen
  int seen = 0;
  unsigned shuffles = 0;
};

struct Meeting {
  int arrived = 0, round = 0;
};

struct Warp {
  Meeting meeting;
  std::uint32_t words[2][32];
};

struct Block {
  std::vector<std::uint64_t> shared;
  Meeting all, first, pairs[8];
  std::uint32_t counts[2] = {};
  std::vector<Warp> warps;
  std::vector<Fiber*> fibers;
};

/// A barrier of the copy engine, in the place of the device's 64 bits.
struct Counter {
  unsigned count : 10, pending : 10, parity : 1;
  int bytes;
};
static_assert(sizeof(Counter) == 8);

struct Copy {
  void* to;
  const void* from;  // null: `sent`
  unsigned bytes;
  Counter* counter;
  float4 sent = {};
};

inline Grid* grid = nullptr;      // running
inline Fiber* current = nullptr;  // running

#ifdef __x86_64__
extern "C" void runnel_simt_switch(void** save, void* to);
asm(R"(
.text
.weak runnel_simt_switch
runnel_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#endif

class Grid {
 public:
  static constexpr std::size_t kStack = 256 * 1024;

  Grid(int count, int threads, std::size_t shared_bytes, unsigned seed, std::function<void()> body)
      : random(seed), body_(std::move(body)), threads_(threads) {
    for (int b = 0; b < count; ++b) {
      Block block;
      block.shared.assign(shared_bytes / 8 + 1, 0x7FF7A5A57FB7A5A5ULL);  // NaN, as f32 too
      block.warps.resize(static_cast<std::size_t>(threads / 32));
      for (int t = 0; t < threads; ++t) {
        auto fiber = std::make_unique<Fiber>();
        fiber->block = b, fiber->thread = t;
        fiber->stack.reset(new unsigned char[kStack]);
        prepare(*fiber);
        block.fibers.push_back(fiber.get());
        fibers_.push_back(std::move(fiber));
      }
      blocks.push_back(std::move(block));
    }
  }

  /// False: nothing moved any more before every thread was through.
  bool run() {
    grid = this;
    std::size_t left = fibers_.size();
    int idle = 0;
    while (left > 0 && idle < 20000) {
      bool moved = false;
      Block& block = blocks[random() % blocks.size()];
      for (int turn = 0; turn < 4; ++turn) {
        for (Fiber* f : block.fibers) {
          if (f->done || (f->watched != nullptr && *f->watched == f->seen)) continue;
          f->watched = nullptr;
          progress = false;
          enter(*f);
          moved = moved || progress || f->done;
          if (f->done) --left;
        }
      }
      while (!copies.empty() && random() % 3 == 0) {
        const std::size_t i = random() % copies.size();
        const Copy c = copies[i];
        copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(i));
        std::memcpy(c.to, c.from != nullptr ? c.from : &c.sent, c.bytes);
        c.counter->bytes -= static_cast<int>(c.bytes);
        settle(*c.counter);
        moved = true;
      }
      idle = moved || !copies.empty() ? 0 : idle + 1;
    }
    grid = nullptr;
    return left == 0;
  }

  static void settle(Counter& c) {
    if (c.pending != 0 || c.bytes != 0) return;
    c.parity ^= 1U;
    c.pending = c.count;
  }

  void leave() { swap_out(*current); }
  void meet(Meeting& m, int threads) {
    progress = true;
    if (++m.arrived == threads) {
      m.arrived = 0, ++m.round;
      return;
    }
    current->watched = &m.round, current->seen = m.round;
    leave();
  }
  Block& block() { return blocks[static_cast<std::size_t>(current->block)]; }
  Warp& warp() { return block().warps[static_cast<std::size_t>(current->thread / 32)]; }

  std::mt19937 random;
  Meeting all_threads;
  std::vector<Block> blocks;
  std::vector<Copy> copies;
  bool progress = false;
  std::uint64_t nanoseconds = 0;

 private:
  static void start() {
    Fiber* self = current;
    Grid* g = grid;
    g->body_();
    self->done = true;
    g->leave();
    std::abort();
  }
#ifdef __x86_64__
  static void prepare(Fiber& f) {
    auto top = reinterpret_cast<std::uintptr_t>(f.stack.get() + kStack) & ~std::uintptr_t{15};
    auto* sp = reinterpret_cast<void**>(top);
    *--sp = nullptr;  // as if called: 8 below a multiple of 16
    *--sp = reinterpret_cast<void*>(&Grid::start);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;
    f.stack_pointer = sp;
  }
  void enter(Fiber& f) {
    current = &f;
    runnel_simt_switch(&main_, f.stack_pointer);
    current = nullptr;
  }
  void swap_out(Fiber& f) { runnel_simt_switch(&f.stack_pointer, main_); }
  void* main_ = nullptr;
#else
  static void prepare(Fiber& f) {
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, &Grid::start, 0);
  }
  void enter(Fiber& f) {
    current = &f;
    swapcontext(&main_, &f.context);
    current = nullptr;
  }
  void swap_out(Fiber& f) { swapcontext(&f.context, &main_); }
  ucontext_t main_;
#endif

  std::function<void()> body_;
  int threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

}  // namespace runnel::simt

namespace runnel::cuda {

using std::max;
using std::min;

inline int thread_index() { return simt::current->thread; }
inline int block_index() { return simt::current->block; }
inline unsigned char* shared_memory() {
  return reinterpret_cast<unsigned char*>(simt::grid->block().shared.data());
}
inline void sync_block() {
  simt::grid->meet(simt::grid->block().all, int(simt::grid->block().fibers.size()));
}
inline std::uint32_t sync_block_count(bool holds) {
  simt::Block& block = simt::grid->block();
  std::uint32_t& count = block.counts[block.all.round & 1];  // who is late reads the other one
  if (block.all.arrived == 0) count = 0;
  count += holds ? 1U : 0U;
  sync_block();
  return count;
}
/// The grid is one cluster.
inline void sync_cluster() {
  simt::grid->meet(simt::grid->all_threads,
                   int(simt::grid->blocks.size() * simt::grid->block().fibers.size()));
}
inline void wait_for_kernels() {}
inline void sync_warp() { simt::grid->meet(simt::grid->warp().meeting, 32); }
template <int kThreads>
void sync_first() {
  simt::grid->meet(simt::grid->block().first, kThreads);
}
inline void sync_pair(int pair) { simt::grid->meet(simt::grid->block().pairs[pair], 64); }
template <int kCount>
void more_registers() {}
template <int kCount>
void fewer_registers() {}
inline std::uint64_t clock_now() { return 0; }
inline void pause(unsigned) { simt::grid->leave(); }
inline unsigned clock_low() { return 0; }
inline void pause_until(unsigned, unsigned) {}

inline simt::Counter& counter(std::uint64_t* b) { return *reinterpret_cast<simt::Counter*>(b); }
inline void barrier_init(std::uint64_t* b, int count) {
  counter(b) = {.count = unsigned(count), .pending = unsigned(count), .parity = 0, .bytes = 0};
}
inline void barrier_publish() {}
inline void barrier_arrive(std::uint64_t* b) {
  simt::grid->progress = true;
  if (counter(b).pending == 0) std::abort();
  counter(b).pending -= 1U;
  simt::Grid::settle(counter(b));
}
inline void barrier_expect(std::uint64_t* b, unsigned bytes) {
  counter(b).bytes += int(bytes);
  barrier_arrive(b);
}
inline bool barrier_passed(std::uint64_t* b, unsigned parity) {
  if (counter(b).parity != parity) {
    simt::grid->progress = true;
    return true;
  }
  // Waits until a thread arrives or the phase is complete.
  static_assert(sizeof(simt::Counter) == 2 * sizeof(int));
  simt::current->watched = reinterpret_cast<const int*>(b);
  std::memcpy(&simt::current->seen, b, sizeof(int));
  simt::grid->leave();
  return counter(b).parity != parity;
}
// Does not leave: what asks again meets others in between.
inline bool barrier_tested(std::uint64_t* b, unsigned parity) {
  return counter(b).parity != parity;
}
inline bool barrier_passed_within(std::uint64_t* b, unsigned parity, unsigned) {
  return barrier_passed(b, parity);
}
inline void wait_barrier_or(std::uint64_t* b, unsigned parity, const std::uint32_t* word) {
  while (!barrier_passed(b, parity) && *word == 0) {
  }
}
/// What it sends lands late, like a copy.
struct ClusterPeer {
  int block = 0;

  static ClusterPeer of(int block) { return {block}; }
  template <class T>
  void store(float* to, T v, std::uint64_t* b) const {
    simt::Grid& g = *simt::grid;
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(T) != 0) std::abort();
    auto* there = reinterpret_cast<unsigned char*>(g.blocks[std::size_t(block)].shared.data());
    const auto place = [&](const void* p) {
      return there + (static_cast<const unsigned char*>(p) - shared_memory());
    };
    simt::Copy copy{place(to), nullptr, sizeof(T), reinterpret_cast<simt::Counter*>(place(b))};
    std::memcpy(&copy.sent, &v, sizeof(T));
    g.copies.push_back(copy);
  }
};
inline std::uint32_t watch_word(const std::uint32_t* p) {
  simt::grid->leave();
  return *p;
}
inline void show_word(std::uint32_t* p, std::uint32_t v) {
  simt::grid->progress = true;
  *p = v;
}
inline std::uint64_t policy_leave_first() { return 0; }
inline std::uint64_t policy_normal() { return 0; }
inline void bulk_copy(void* to, const void* from, unsigned bytes, std::uint64_t* b, std::uint64_t) {
  const auto address =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes;
  if (address % 16 != 0 || bytes == 0) std::abort();
  simt::grid->copies.push_back({to, from, bytes, &counter(b)});
}
inline void bulk_prefetch(const void*, unsigned bytes) {
  if (bytes % 16 != 0) std::abort();
}
inline void maybe_leave() {
  if (simt::grid->random() % 2 == 0) simt::grid->leave();
}
inline float4 load_vector(const float* p) { return *reinterpret_cast<const float4*>(p); }
inline void store_vector(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }
inline float4 load_exchanged(const float* p) {
  maybe_leave();
  return *reinterpret_cast<const float4*>(p);
}
inline float2 load_exchanged_pair(const float* p) {
  maybe_leave();
  return *reinterpret_cast<const float2*>(p);
}
inline float load_exchanged_word(const float* p) {
  maybe_leave();
  return *p;
}
inline void store_exchanged(float* p, float v) {
  simt::grid->progress = true;
  *p = v;
}
inline void store_exchanged_half(std::uint16_t* p, std::uint16_t v) {
  simt::grid->progress = true;
  *p = v;
}
inline std::uint32_t load_flag(const std::uint32_t* p) { return *p; }
inline void store_flag(std::uint32_t* p, std::uint32_t v) { *p = v; }
inline std::uint64_t load_choice(const std::uint64_t* p) { return *p; }
inline void store_choice(std::uint64_t* p, std::uint64_t v) { *p = v; }
inline std::uint32_t count_block(std::uint32_t* p) { return (*p)++; }

template <class T>
T __shfl_xor_sync(unsigned, T v, int other) {
  static_assert(sizeof(T) == 4);
  simt::Warp& warp = simt::grid->warp();
  auto& words = warp.words[simt::current->shuffles++ & 1U];
  const int lane = simt::current->thread & 31;
  std::memcpy(&words[lane], &v, 4);
  simt::grid->meet(warp.meeting, 32);
  std::memcpy(&v, &words[lane ^ other], 4);
  return v;
}
template <class T>
T __shfl_sync(unsigned mask, T v, int from) {
  return __shfl_xor_sync(mask, v, from ^ (simt::current->thread & 31));
}
inline std::uint32_t __reduce_add_sync(unsigned mask, std::uint32_t v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(mask, v, o);
  return v;
}
template <class T>
T __reduce_max_sync(unsigned mask, T v) {
  for (int o = 16; o > 0; o >>= 1) v = std::max(v, __shfl_xor_sync(mask, v, o));
  return v;
}
inline std::uint32_t atomicAdd(std::uint32_t* p, std::uint32_t v) {
  return std::exchange(*p, *p + v);
}
inline std::uint32_t atomicMax(std::uint32_t* p, std::uint32_t v) {
  return std::exchange(*p, std::max(*p, v));
}
inline std::uint32_t atomicExch(std::uint32_t* p, std::uint32_t v) { return std::exchange(*p, v); }
inline void store_host(std::uint64_t* p, std::uint64_t v) { *p = v; }
inline void release_to_host(std::uint64_t* p, std::uint64_t v) { *p = v; }
/// A thread of the host may write while the grid runs.
inline std::uint32_t load_host(const std::uint32_t* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
inline std::uint32_t watch_host(const std::uint32_t* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
/// A tenth of a microsecond goes by from one look to the next.
inline std::uint64_t nanoseconds_now() {
  simt::grid->progress = true;  // who waits for a time does not wait for ever
  return simt::grid->nanoseconds += 100;
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int __float2int_rz(float f) { return int(f); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i)
    c += int(static_cast<std::int8_t>(a >> (8 * i))) * int(static_cast<std::int8_t>(b >> (8 * i)));
  return c;
}
/// The lower two bytes of b times the two halves of a.
inline int __dp2a_lo(int a, int b, int c) {
  return c + int(static_cast<std::int16_t>(a & 0xFFFF)) * int(static_cast<std::int8_t>(b & 255)) +
         int(static_cast<std::int16_t>(a >> 16)) * int(static_cast<std::int8_t>((b >> 8) & 255));
}
inline int dot4_unsigned(unsigned a, int b, int c) {
  for (int i = 0; i < 4; ++i)
    c += int((a >> (8 * i)) & 255U) * int(static_cast<std::int8_t>(b >> (8 * i)));
  return c;
}
inline float __uint_as_float(unsigned v) {
  float f;
  std::memcpy(&f, &v, 4);
  return f;
}
inline float __int_as_float(int v) { return __uint_as_float(unsigned(v)); }
inline unsigned __float_as_uint(float f) {
  unsigned v;
  std::memcpy(&v, &f, 4);
  return v;
}
inline int __float_as_int(float f) { return int(__float_as_uint(f)); }
inline int __float2int_rn(float f) { return int(std::lrint(f)); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float reciprocal(float v) { return 1.0F / v; }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline void sincospif(float x, float* s, float* c) {
  *s = float(std::sin(double(x) * M_PI)), *c = float(std::cos(double(x) * M_PI));
}

}  // namespace runnel::cuda
