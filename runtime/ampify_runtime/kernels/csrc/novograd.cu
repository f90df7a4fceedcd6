// NovoGrad: first the norms, one number a tensor, then one pass over gradient, parameter and moment.
// With float16 GRAD and MODEL and float32 PARAM and STATE: 10 bytes read, 10 written.
#include "state.cuh"
#include "table.cuh"

using novograd_lists = Lists<In<GRAD>, InOut<PARAM>, InOut<STATE>, Out<MODEL>>;

// Blends the norms of this step's gradients, still scaled, into those kept; a thread a tensor.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) novograd_norms(
    float* kept, const float* norms, int count, const StepState* state, float beta2, float rest2, int largest,
    int first_run) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count || state->skip != 0.f) return;
  const float n = norms[i] * state->grad_factor, before = kept[i];
  const float blended = largest ? beta2 * before + rest2 * n : sqrtf(beta2 * before * before + rest2 * n * n);
  kept[i] = is_first_run(*state, first_run) ? n : blended;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) novograd(
    const __grid_constant__ Table<novograd_lists::count> table, const StepState* state, const float* norms, float beta1,
    float beta3, float epsilon, float decay, int decay_in_moment) {
  const StepState now = *state;
  if (now.skip != 0.f) return;
  const auto chunk = chunk_of_block(table, novograd_lists{});
  const float by = 1.f / (norms[chunk.index] / sqrtf(now.bias_correction2) + epsilon);
  const float to_m_hat = 1.f / now.bias_correction1;
  chunk.for_each([&](float (&x)[novograd_lists::count]) {
    const float p = x[1], g = x[0] * now.grad_factor;
    const float m = beta1 * x[2] + beta3 * (decay_in_moment ? g * by + decay * p : g);
    const float u = decay_in_moment ? m * to_m_hat : m * to_m_hat * by + decay * p;
    x[1] = x[3] = p - now.lr * u;
    x[2] = m;
  });
}
