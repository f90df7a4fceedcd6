// Runs a block's threads as fibers, in an order that the test chooses, and stops at barriers that not all threads reach.
#include "cuda_emulation.h"

#include <setjmp.h>
#include <stdio.h>
#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "launch.h"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
namespace {

constexpr size_t kStack = 128 << 10;
constexpr int kWarp = 32, kMaxWarps = 32;

struct Fiber {
  ucontext_t context;
  jmp_buf resume;
  std::vector<char> stack = std::vector<char>(kStack);
  bool done, fresh;
};

// Threads wait until all that are still running have come; `generation` tells them that they have.
struct Barrier {
  unsigned arrived = 0, running = 0, generation = 0;
  int line = 0;
};

std::vector<Fiber*> fibers;
jmp_buf scheduler;
unsigned current, running;
bool progress;
const char* fault;
Barrier of_block, of_warp[kMaxWarps];
unsigned char exchanged[kMaxWarps][kWarp][8];
Entry entry;
void** entry_arguments;

void take_turns() {
  // _setjmp makes no system call, where swapcontext makes two.
  if (!_setjmp(fibers[current]->resume)) _longjmp(scheduler, 1);
}

void open_if_complete(Barrier& barrier) {
  if (!barrier.running || barrier.arrived != barrier.running) return;
  barrier.arrived = 0;
  ++barrier.generation;
  progress = true;
}

void wait_at(Barrier& barrier) {
  const unsigned generation = barrier.generation;
  ++barrier.arrived;
  progress = true;
  open_if_complete(barrier);
  while (barrier.generation == generation) take_turns();
}

// A fiber outlives its thread: it waits for the next block, which costs less than a new fiber.
void run_threads() {
  for (;;) {
    entry(entry_arguments);
    fibers[current]->done = true;
    progress = true;
    --running;
    for (Barrier* barrier : {&of_block, &of_warp[current / kWarp]}) {
      --barrier->running;
      open_if_complete(*barrier);
    }
    take_turns();
  }
}

__attribute__((noinline)) void resume(unsigned thread) {
  current = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
  if (_setjmp(scheduler)) return;
  Fiber& fiber = *fibers[thread];
  if (!fiber.fresh) _longjmp(fiber.resume, 1);
  fiber.fresh = false;
  setcontext(&fiber.context);
}

void prepare(Fiber& fiber) {
  fiber.fresh = true;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_threads, 0);
}

std::vector<unsigned> permutation(unsigned count, unsigned order, unsigned seed) {
  std::vector<unsigned> result(count);
  for (unsigned i = 0; i < count; ++i) result[i] = order == kBackward ? count - 1 - i : i;
  for (unsigned i = count - 1; order >= kShuffled && i; --i) {
    seed = seed * 1664525u + 1013904223u;
    std::swap(result[i], result[(seed >> 8) % (i + 1)]);
  }
  return result;
}

// Warps in some order, and the threads of each in some order.
std::vector<unsigned> order_of(unsigned threads, unsigned order) {
  std::vector<unsigned> result;
  for (unsigned warp : permutation((threads + kWarp - 1) / kWarp, order, order))
    for (unsigned lane : permutation(kWarp, order, order + warp))
      if (warp * kWarp + lane < threads) result.push_back(warp * kWarp + lane);
  return result;
}

// Its fibers are left wherever they stood.
bool abandon() {
  for (Fiber* fiber : fibers) prepare(*fiber);
  return false;
}

// Until none gets any further: so one warp leaves the others far behind, and shows what nobody waits for.
bool run_warp(const unsigned* thread, const unsigned* end) {
  bool any_progress = false;
  do {
    progress = false;
    for (const unsigned* t = thread; t < end; ++t)
      if (!fibers[*t]->done && !fault) resume(*t);
    any_progress |= progress;
  } while (progress && !fault);
  return any_progress;
}

bool run_block(const std::vector<unsigned>& order) {
  running = order.size();
  of_block = Barrier();
  of_block.running = running;
  for (auto& barrier : of_warp) barrier = Barrier();
  for (unsigned t = fibers.size(); t < running; ++t) {
    fibers.push_back(new Fiber);
    prepare(*fibers[t]);
  }
  for (unsigned t = 0; t < running; ++t) {
    fibers[t]->done = false;
    ++of_warp[t / kWarp].running;
  }
  while (running) {
    bool any_progress = false;
    for (size_t first = 0; first < order.size(); first += kWarp) {
      const size_t end = std::min(first + kWarp, order.size());
      any_progress |= run_warp(&order[first], &order[end - 1] + 1);
    }
    if (!any_progress && !fault) fault = "a barrier that not every running thread reaches";
    if (fault) return abandon();
  }
  return true;
}

}  // namespace

int lane() { return current % kWarp; }

void block_barrier(int line) {
  if (of_block.arrived && of_block.line != line) {
    fault = "threads of a block wait at different barriers";
    take_turns();
  }
  of_block.line = line;
  wait_at(of_block);
}

void exchange(void* value, int size, int from_lane) {
  const unsigned warp = current / kWarp;
  memcpy(exchanged[warp][lane()], value, size);
  wait_at(of_warp[warp]);
  if (from_lane >= 0 && from_lane < kWarp) memcpy(value, exchanged[warp][from_lane], size);
  wait_at(of_warp[warp]);
}

float float_of_half(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 0) return ldexpf(sign ? -(float)fraction : (float)fraction, -24);
  return __uint_as_float(sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13);
}

unsigned short half_of_float(float value) {
  const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Too small for a full fraction: a number of steps of 2**-24.
  if (magnitude < 0x38800000) return sign | (unsigned)nearbyintf(__uint_as_float(magnitude) * 16777216.f);
  return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

const char* launch(Entry kernel, Dim3 grid, Dim3 block, void** arguments, unsigned order) {
  entry = kernel;
  entry_arguments = arguments;
  gridDim = grid;
  blockDim = block;
  fault = nullptr;
  const auto threads = order_of(block.x * block.y * block.z, order);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        if (!run_block(threads)) return fault;
  return nullptr;
}

}  // namespace emulated
