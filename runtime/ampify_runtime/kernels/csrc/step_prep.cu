// Decides about a step in one block: skip, clip, bias corrections, and the loss scale's next value. No traffic to
// speak of.
#include "state.cuh"
#include "sums.cuh"

// 0 as a float32 or an int32, whichever it is.
__device__ inline bool is_set(const u32* flag) { return flag && (*flag & 0x7fffffffu) != 0; }

// As torch's GradScaler moves it, then within bounds.
__device__ inline void move_scale(float* scale, int* tracker, bool skipped, double growth, double backoff, int interval,
                                  float lowest, float highest) {
  if (skipped) {
    *scale = (float)(*scale * backoff);
    *tracker = 0;
  } else if (++*tracker == interval) {
    const float grown = (float)(*scale * growth);
    if (is_finite(grown)) *scale = grown;
    *tracker = 0;
  }
  *scale = fminf(fmaxf(*scale, lowest), highest);
}

// Any pointer but `state` may be null: then what it stands for is not there.
extern "C" __global__ void __launch_bounds__(256) step_prep(
    StepState* state, const float* sums, i64 count, const u32* stats_found_inf, const u32* found_inf, float lr,
    const float* lr_at, int step, int* step_at, double beta1, double beta2, int bias_correction, float* scale,
    double max_norm, double norm_epsilon, int* tracker, double growth, double backoff, int interval, float lowest,
    float highest) {
  double squares = 0.;
  if (sums)
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) squares += (double)sums[i];
  squares = over_block(squares, Add{}, 0.);
  if (threadIdx.x != 0) return;

  const bool skip = is_set(stats_found_inf) || is_set(found_inf);
  if (step_at) step = *step_at += !skip;
  const double inv_scale = scale ? 1. / (double)*scale : 1.;
  const double norm = sqrt(squares) * inv_scale;
  double clip = 1.;
  if (max_norm > 0.) {
    clip = max_norm / (norm + norm_epsilon);
    if (clip > 1.) clip = 1.;
  }
  state->skip = skip;
  state->inv_scale = (float)inv_scale;
  state->grad_norm = (float)norm;
  state->clip = (float)clip;
  state->grad_factor = (float)inv_scale * (float)clip;
  state->lr = lr_at ? *lr_at : lr;
  state->bias_correction1 = bias_correction ? (float)(1. - pow(beta1, (double)step)) : 1.f;
  state->bias_correction2 = bias_correction ? (float)(1. - pow(beta2, (double)step)) : 1.f;
  state->step = (float)step;
  if (tracker) move_scale(scale, tracker, skip, growth, backoff, interval, lowest, highest);
}
