// The part of CUDA C++ that the kernels use, for a C++ compiler: a block's threads are fibers that take turns at barriers.
#pragma once
#define AMPIFY_EMULATED 1
#include <math.h>
#include <string.h>
#include <utility>

#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
// One block runs at a time.
#define __shared__ static

struct Dim3 { unsigned x, y, z; };
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
float float_of_half(unsigned short bits);
unsigned short half_of_float(float value);
void block_barrier(int line);
void exchange(void* value, int size, int from_lane);
int lane();
}  // namespace emulated

#define __syncthreads() emulated::block_barrier(__LINE__)

template <typename T> inline T __shfl_down_sync(unsigned, T value, int by) {
  emulated::exchange(&value, sizeof value, emulated::lane() + by);
  return value;
}
inline float __uint_as_float(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
inline unsigned __float_as_uint(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }

namespace emulated {
template <typename T> struct Stored { typedef T type; };
template <typename T> struct Stored<const T> { typedef T type; };
template <typename... A, size_t... I> inline void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*(typename Stored<A>::type*)arguments[I]...);
}
template <typename... A> inline void call(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<A...>{});
}
}  // namespace emulated

// One thread's run of a kernel, its arguments as cuLaunchKernel has them; what the stand-in driver looks for.
#define EMULATED_KERNEL(name) extern "C" __attribute__((visibility("default"))) void emulated_##name(void** arguments) { emulated::call(name, arguments); }
