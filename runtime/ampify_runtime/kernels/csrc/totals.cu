// From the blocks' results to the tensors', and from those to one norm. Reads a few numbers a tensor.
#include "sums.cuh"
#include "table.cuh"

// A block a tensor.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) sum_blocks(
    const __grid_constant__ Spans spans, const float* of_block, float* of_tensor) {
  double sum = 0.;
  for (u32 b = spans.first_block[blockIdx.x] + threadIdx.x; b < spans.end_of(blockIdx.x); b += kThreads)
    sum += (double)of_block[b];
  sum = over_block(sum, Add{}, 0.);
  if (threadIdx.x == 0) of_tensor[spans.index[blockIdx.x]] = (float)sum;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) largest_of_blocks(
    const __grid_constant__ Spans spans, const float* of_block, float* of_tensor) {
  float most = 0.f;
  for (u32 b = spans.first_block[blockIdx.x] + threadIdx.x; b < spans.end_of(blockIdx.x); b += kThreads)
    most = Larger{}(of_block[b], most);
  most = over_block(most, Larger{}, 0.f);
  if (threadIdx.x == 0) of_tensor[spans.index[blockIdx.x]] = most;
}

// One block: sums of squares become norms, in place, and `total` the norm of all.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) norms_of_sums(float* sums, i64 count, float* total) {
  double sum = 0.;
  for (i64 i = threadIdx.x; i < count; i += kThreads) {
    sum += (double)sums[i];
    sums[i] = sqrtf(sums[i]);
  }
  sum = over_block(sum, Add{}, 0.);
  if (threadIdx.x == 0) *total = (float)sqrt(sum);
}
