// LAMB in two passes. The first updates the moments and sums the squares of parameter and update; the second computes
// the update anew instead of keeping it. With float16 GRAD and MODEL and float32 PARAM and STATE: 14 bytes read and 8
// written, then 12 read and 6 written. STATE is float32: a rounded one would give the second pass another update than
// the first.
#include "state.cuh"
#include "sums.cuh"
#include "table.cuh"

using lamb_moments_lists = Lists<In<GRAD>, In<PARAM>, InOut<STATE>, InOut<STATE>>;
using lamb_apply_lists = Lists<InOut<PARAM>, In<STATE>, In<STATE>, Out<MODEL>>;

__device__ inline float lamb_update(const StepState& now, float p, float m, float v, float epsilon, float decay) {
  return (m / now.bias_correction1) / (sqrtf(v / now.bias_correction2) + epsilon) + decay * p;
}

// `squares`: for each block, the sums of p * p and u * u. `decay_grad` and `decay_update`: one of them is 0.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) lamb_moments(
    const __grid_constant__ Table<lamb_moments_lists::count> table, const StepState* state, float* squares, float beta1,
    float beta3, float beta2, float rest2, float epsilon, float decay_grad, float decay_update) {
  const StepState now = *state;
  if (now.skip != 0.f) return;
  float of_params = 0.f, of_updates = 0.f;
  chunk_of_block(table, lamb_moments_lists{}).for_each([&](float (&x)[lamb_moments_lists::count]) {
    const float p = x[1], g = x[0] * now.grad_factor + decay_grad * p;
    x[2] = beta1 * x[2] + beta3 * g;
    x[3] = beta2 * x[3] + rest2 * g * g;
    const float u = lamb_update(now, p, x[2], x[3], epsilon, decay_update);
    of_params += p * p;
    of_updates += u * u;
  });
  of_params = over_block(of_params, Add{}, 0.f);
  of_updates = over_block(of_updates, Add{}, 0.f);
  if (threadIdx.x == 0) {
    squares[2 * blockIdx.x] = of_params;
    squares[2 * blockIdx.x + 1] = of_updates;
  }
}

// A block a tensor: the ratio of both norms, 1 where one of them is 0 or where the tensor is not to have one.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) lamb_ratios(
    const __grid_constant__ Spans spans, const StepState* state, const float* squares, float* ratios, int adaptive) {
  if (state->skip != 0.f) return;
  double of_params = 0., of_updates = 0.;
  for (u32 b = spans.first_block[blockIdx.x] + threadIdx.x; b < spans.end_of(blockIdx.x); b += kThreads) {
    of_params += (double)squares[2 * b];
    of_updates += (double)squares[2 * b + 1];
  }
  of_params = over_block(of_params, Add{}, 0.);
  of_updates = over_block(of_updates, Add{}, 0.);
  if (threadIdx.x != 0) return;
  const bool has_ratio = adaptive && of_params != 0. && of_updates != 0.;
  ratios[spans.index[blockIdx.x]] = has_ratio ? (float)sqrt(of_params / of_updates) : 1.f;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) lamb_apply(
    const __grid_constant__ Table<lamb_apply_lists::count> table, const StepState* state, const float* ratios,
    float epsilon, float decay_update) {
  const StepState now = *state;
  if (now.skip != 0.f) return;
  const auto chunk = chunk_of_block(table, lamb_apply_lists{});
  const float rate = now.lr * ratios[chunk.index];
  chunk.for_each([&](float (&x)[lamb_apply_lists::count]) {
    x[0] = x[3] = x[0] - rate * lamb_update(now, x[0], x[1], x[2], epsilon, decay_update);
  });
}
