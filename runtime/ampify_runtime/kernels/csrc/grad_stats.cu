// One read of many tensors: sums of squares or largest magnitudes, and whether all elements are finite.
#include "sums.cuh"
#include "table.cuh"

using grad_stats_lists = Lists<In<INPUT>>;

// `of_block`: for each block, the sum of squares of its elements. `found_inf`, which may be null, is set to 1.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) grad_stats(
    const __grid_constant__ Table<grad_stats_lists::count> table, float* of_block, float* found_inf) {
  float sum = 0.f;
  bool finite = true;
  chunk_of_block(table, grad_stats_lists{}).for_each([&](float (&x)[grad_stats_lists::count]) {
    finite = finite && is_finite(x[0]);
    sum += x[0] * x[0];
  });
  if (!finite && found_inf) *found_inf = 1.f;
  sum = over_block(sum, Add{}, 0.f);
  if (threadIdx.x == 0) of_block[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) largest(
    const __grid_constant__ Table<grad_stats_lists::count> table, float* of_block) {
  float most = 0.f;
  chunk_of_block(table, grad_stats_lists{}).for_each([&](float (&x)[grad_stats_lists::count]) {
    most = Larger{}(fabsf(x[0]), most);
  });
  most = over_block(most, Larger{}, 0.f);
  if (threadIdx.x == 0) of_block[blockIdx.x] = most;
}
