// Gradient descent with momentum: reads gradient, parameter and buffer, writes the latter two and the model's copy.
// With float16 GRAD and MODEL and float32 PARAM and STATE: 10 bytes read, 10 written. STATE is `nothing` without
// momentum.
#include "state.cuh"
#include "table.cuh"

using sgd_lists = Lists<In<GRAD>, InOut<PARAM>, InOut<STATE>, Out<MODEL>>;

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) sgd(
    const __grid_constant__ Table<sgd_lists::count> table, const StepState* state, float momentum, float rest,
    float decay, int nesterov, int decay_after_momentum, int first_run) {
  const StepState now = *state;
  if (now.skip != 0.f) return;
  const bool first = is_first_run(now, first_run);
  chunk_of_block(table, sgd_lists{}).for_each([&](float (&x)[sgd_lists::count]) {
    const float p = x[1];
    float g = x[0] * now.grad_factor + (decay_after_momentum ? 0.f : decay * p);
    if (element<STATE>::size) {
      const float b = first ? g : momentum * x[2] + rest * g;
      g = nesterov ? g + momentum * b : b;
      x[2] = b;
    }
    g += decay_after_momentum ? decay * p : 0.f;
    x[1] = x[3] = p - now.lr * g;
  });
}
