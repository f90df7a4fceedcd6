// What the updates of a step go by; the order of kernels/state.py.
#pragma once
#include "elements.cuh"

struct StepState {
  float skip;
  float grad_factor;
  float inv_scale;
  float clip;
  float grad_norm;
  float lr;
  float bias_correction1;
  float bias_correction2;
  float step;
};

// 1, 0, or -1 to go by the step's number: the first one that was not skipped.
__device__ inline bool is_first_run(const StepState& state, int first_run) {
  return first_run < 0 ? state.step == 1.f : first_run != 0;
}
