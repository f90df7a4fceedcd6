// Sums and maxima over the threads of a block, in an order that never changes.
#pragma once
#include "elements.cuh"

struct Add { template <typename T> __device__ T operator()(T a, T b) const { return a + b; } };
// A NaN wins, so that it is not lost on the way.
struct Larger { __device__ float operator()(float a, float b) const { return a >= b || a != a ? a : b; } };

template <typename T, typename Combine> __device__ inline T over_warp(T value, Combine combine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_down_sync(0xffffffffu, value, offset));
  return value;
}

// The result is thread 0's. All threads of the block call it; it may be called again at once.
template <typename T, typename Combine> __device__ inline T over_block(T value, Combine combine, T neutral) {
  __shared__ T of_warp[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = over_warp(value, combine);
  __syncthreads();
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = (int)threadIdx.x < warps ? of_warp[threadIdx.x] : neutral;
  return warp == 0 ? over_warp(value, combine) : value;
}

// The same, for all threads.
template <typename T, typename Combine> __device__ inline T known_to_block(T value, Combine combine, T neutral) {
  __shared__ T result;
  value = over_block(value, combine, neutral);
  if (threadIdx.x == 0) result = value;
  __syncthreads();
  return result;
}
