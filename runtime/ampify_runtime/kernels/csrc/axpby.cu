// outputs = a * x + b * y, noting inputs that are not finite. Reads X and Y and writes OUTPUT once.
#include "table.cuh"

using axpby_lists = Lists<In<X>, In<Y>, Out<OUTPUT>>;

// `a_at` and `b_at`, if there, hold what the factors are multiplied by. `checks_x` and `checks_y`: which to look at.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) axpby(
    const __grid_constant__ Table<axpby_lists::count> table, float a, const float* a_at, float b, const float* b_at,
    u32* found_inf, u32 mark, int checks_x, int checks_y) {
  const float of_x = a_at ? a * *a_at : a, of_y = b_at ? b * *b_at : b;
  bool finite = true;
  chunk_of_block(table, axpby_lists{}).for_each([&](float (&x)[axpby_lists::count]) {
    finite = finite && (!checks_x || is_finite(x[0])) && (!checks_y || is_finite(x[1]));
    x[2] = of_x * x[0] + of_y * x[1];
  });
  if (!finite && found_inf) *found_inf = mark;
}
