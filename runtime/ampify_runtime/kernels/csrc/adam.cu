// Adam and AdamW: reads gradient, parameter and both moments, writes the latter three and the model's copy, in one
// pass. With float16 GRAD and MODEL and float32 PARAM and STATE: 14 bytes read, 14 written.
#include "state.cuh"
#include "table.cuh"

using adam_lists = Lists<In<GRAD>, InOut<PARAM>, InOut<STATE>, InOut<STATE>, Out<MODEL>>;

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) adam(
    const __grid_constant__ Table<adam_lists::count> table, const StepState* state, float beta1, float rest1,
    float beta2, float rest2, float epsilon, float decay, int decoupled) {
  const StepState now = *state;
  if (now.skip != 0.f) return;
  const float to_m_hat = 1.f / now.bias_correction1, to_root_v_hat = 1.f / sqrtf(now.bias_correction2);
  chunk_of_block(table, adam_lists{}).for_each([&](float (&x)[adam_lists::count]) {
    const float p = x[1];
    const float g = x[0] * now.grad_factor + (decoupled ? 0.f : decay * p);
    const float m = beta1 * x[2] + rest1 * g;
    const float v = beta2 * x[3] + rest2 * g * g;
    const float u = (m * to_m_hat) / (sqrtf(v) * to_root_v_hat + epsilon) + (decoupled ? decay * p : 0.f);
    x[1] = x[4] = p - now.lr * u;
    x[2] = m;
    x[3] = v;
  });
}
