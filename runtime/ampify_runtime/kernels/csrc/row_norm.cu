// LayerNorm and RMSNorm (CENTERED 1 and 0), forward and backward: a block a row of `columns` elements, which is read
// from memory once and from the caches after that. INPUT, WEIGHT, BIAS, OUTPUT may all differ; WEIGHT and BIAS may be
// `nothing`.
#include "lists.cuh"
#include "sums.cuh"

using forward_lists = Lists<In<INPUT>, In<WEIGHT>, In<BIAS>, Out<OUTPUT>>;
using backward_lists = Lists<In<OUTPUT>, In<INPUT>, In<WEIGHT>, Out<INPUT>>;

template <typename T> __device__ inline void* row_of(const void* matrix, i64 row, int columns) {
  return (char*)matrix + row * columns * element<T>::size;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) row_norm(
    const void* input, const void* weight, const void* bias, void* output, float* means, float* rstds, int columns,
    float epsilon) {
  const i64 row = blockIdx.x;
  void* const x_row[1] = {row_of<INPUT>(input, row, columns)};
  float mean = 0.f, squares = 0.f;
  if (CENTERED) {
    Lists<In<INPUT>>::for_each(x_row, columns, [&](float (&x)[1]) { mean += x[0]; });
    mean = known_to_block(mean, Add{}, 0.f) / columns;
  }
  Lists<In<INPUT>>::for_each(x_row, columns, [&](float (&x)[1]) { squares += (x[0] - mean) * (x[0] - mean); });
  const float rstd = 1.f / sqrtf(known_to_block(squares, Add{}, 0.f) / columns + epsilon);
  if (threadIdx.x == 0) {
    if (CENTERED) means[row] = mean;
    rstds[row] = rstd;
  }
  void* const lists[forward_lists::count] = {x_row[0], (void*)weight, (void*)bias,
                                             row_of<OUTPUT>(output, row, columns)};
  forward_lists::for_each(lists, columns, [&](float (&x)[forward_lists::count]) {
    const float y = (x[0] - mean) * rstd;
    x[3] = element<WEIGHT>::size ? y * x[1] + x[2] : y + x[2];
  });
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) row_norm_backward(
    const void* grad, const void* input, const void* weight, const float* means, const float* rstds, void* grad_input,
    int columns) {
  const i64 row = blockIdx.x;
  const float mean = CENTERED ? means[row] : 0.f, rstd = rstds[row];
  void* const lists[backward_lists::count] = {row_of<OUTPUT>(grad, row, columns), row_of<INPUT>(input, row, columns),
                                              (void*)weight, row_of<INPUT>(grad_input, row, columns)};
  void* const inputs[3] = {lists[0], lists[1], lists[2]};
  float sum = 0.f, along = 0.f;
  Lists<In<OUTPUT>, In<INPUT>, In<WEIGHT>>::for_each(inputs, columns, [&](float (&x)[3]) {
    const float w = element<WEIGHT>::size ? x[0] * x[2] : x[0];
    sum += w;
    along += w * (x[1] - mean) * rstd;
  });
  along = known_to_block(along, Add{}, 0.f) / columns;
  sum = CENTERED ? known_to_block(sum, Add{}, 0.f) / columns : 0.f;
  backward_lists::for_each(lists, columns, [&](float (&x)[backward_lists::count]) {
    const float w = element<WEIGHT>::size ? x[0] * x[2] : x[0];
    x[3] = rstd * (w - sum - (x[1] - mean) * rstd * along);
  });
}

// A thread a column of a strip of rows: `of_strip` holds, for each strip, a row of weight sums and a row of bias sums.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) row_norm_strips(
    const void* grad, const void* input, const float* means, const float* rstds, float* of_strip, i64 rows, int columns,
    int rows_a_strip) {
  const i64 column = (i64)blockIdx.x * kThreads + threadIdx.x;
  if (column >= columns) return;
  const i64 first = (i64)blockIdx.y * rows_a_strip;
  const i64 end = first + rows_a_strip < rows ? first + rows_a_strip : rows;
  float of_weight = 0.f, of_bias = 0.f;
  for (i64 row = first; row < end; ++row) {
    const float g = to_float(((const OUTPUT*)grad)[row * columns + column]);
    const float x = to_float(((const INPUT*)input)[row * columns + column]);
    of_weight += g * (x - (CENTERED ? means[row] : 0.f)) * rstds[row];
    of_bias += g;
  }
  float* sums = of_strip + (i64)blockIdx.y * 2 * columns;
  sums[column] = of_weight;
  sums[columns + column] = of_bias;
}

template <typename T> __device__ inline void store_at(void* to, i64 at, float value) {
  ((T*)to)[at] = from_float<T>(value);
}
template <> __device__ inline void store_at<nothing>(void*, i64, float) {}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) row_norm_weights(
    const float* of_strip, void* grad_weight, void* grad_bias, int strips, int columns) {
  const i64 column = (i64)blockIdx.x * kThreads + threadIdx.x;
  if (column >= columns) return;
  float of_weight = 0.f, of_bias = 0.f;
  for (i64 strip = 0; strip < strips; ++strip) {
    of_weight += of_strip[strip * 2 * columns + column];
    of_bias += of_strip[(strip * 2 + 1) * columns + column];
  }
  store_at<WEIGHT>(grad_weight, column, of_weight);
  store_at<BIAS>(grad_bias, column, of_bias);
}
