// outputs = inputs * factor, noting inputs that are not finite. Reads INPUT and writes OUTPUT once.
#include "table.cuh"

using scale_lists = Lists<In<INPUT>, Out<OUTPUT>>;

// `factor_at`, if there, holds what the factor is multiplied by. `mark` is 1 in the type of `found_inf`, which may be
// null.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) scale(
    const __grid_constant__ Table<scale_lists::count> table, float factor, const float* factor_at, u32* found_inf,
    u32 mark) {
  const float by = factor_at ? factor * *factor_at : factor;
  bool finite = true;
  chunk_of_block(table, scale_lists{}).for_each([&](float (&x)[scale_lists::count]) {
    finite = finite && is_finite(x[0]);
    x[1] = x[0] * by;
  });
  // Several threads may write, and all write the same.
  if (!finite && found_inf) *found_inf = mark;
}
