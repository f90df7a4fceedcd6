// Adagrad: reads gradient, parameter and sum of squares, writes the latter two and the model's copy, in one pass.
// With float16 GRAD and MODEL and float32 PARAM and STATE: 10 bytes read, 10 written.
#include "state.cuh"
#include "table.cuh"

using adagrad_lists = Lists<In<GRAD>, InOut<PARAM>, InOut<STATE>, Out<MODEL>>;

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) adagrad(
    const __grid_constant__ Table<adagrad_lists::count> table, const StepState* state, float epsilon, float decay,
    int decoupled) {
  const StepState now = *state;
  if (now.skip != 0.f) return;
  chunk_of_block(table, adagrad_lists{}).for_each([&](float (&x)[adagrad_lists::count]) {
    const float p = x[1];
    const float g = x[0] * now.grad_factor + (decoupled ? 0.f : decay * p);
    const float s = x[2] + g * g;
    const float u = g / (sqrtf(s) + epsilon) + (decoupled ? decay * p : 0.f);
    x[1] = x[3] = p - now.lr * u;
    x[2] = s;
  });
}
