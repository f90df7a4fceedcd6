// How a kernel walks several tensors at once: vectors of 16 bytes where all are aligned, single elements elsewhere.
#pragma once
#include "elements.cuh"

constexpr int kThreads = 256;
// Blocks that a multiprocessor has registers for: 85 a thread. Left to itself, the compiler keeps to 64 on sm_75, and
// spills.
constexpr int kBlocks = 3;
// Elements that a thread holds of each list: one 16-byte vector of float16, two of float32.
constexpr int kVector = 8;
// The same where elements are fetched one by one.
constexpr int kSingles = 4;

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

template <typename T, int N> __device__ inline void load_vector(float (&to)[N], const T* from) {
  constexpr int width = 16 / sizeof(T) < N ? 16 / sizeof(T) : N;
#pragma unroll
  for (int part = 0; part < N; part += width) {
    const Pack<T, width> pack = *reinterpret_cast<const Pack<T, width>*>(from + part);
#pragma unroll
    for (int k = 0; k < width; ++k) to[part + k] = to_float(pack.values[k]);
  }
}

template <typename T, int N> __device__ inline void store_vector(T* to, const float (&from)[N]) {
  constexpr int width = 16 / sizeof(T) < N ? 16 / sizeof(T) : N;
#pragma unroll
  for (int part = 0; part < N; part += width) {
    Pack<T, width> pack;
#pragma unroll
    for (int k = 0; k < width; ++k) pack.values[k] = from_float<T>(from[part + k]);
    *reinterpret_cast<Pack<T, width>*>(to + part) = pack;
  }
}

// One list of a kernel: the type of its elements, and whether they are read and written.
template <typename T, bool READS, bool WRITES> struct List {
  static constexpr int size = sizeof(T);
  template <int N> static __device__ void load(float (&to)[N], const void* list, int at) {
    if (READS) load_vector<T, N>(to, (const T*)list + at);
  }
  template <int N> static __device__ void store(void* list, int at, const float (&from)[N]) {
    if (WRITES) store_vector<T, N>((T*)list + at, from);
  }
  static __device__ void load_one(float& to, const void* list, int at) {
    if (READS) to = to_float(((const T*)list)[at]);
  }
  static __device__ void store_one(void* list, int at, float from) {
    if (WRITES) ((T*)list)[at] = from_float<T>(from);
  }
};
template <bool READS, bool WRITES> struct List<nothing, READS, WRITES> {
  static constexpr int size = 0;
  template <int N> static __device__ void load(float (&)[N], const void*, int) {}
  template <int N> static __device__ void store(void*, int, const float (&)[N]) {}
  static __device__ void load_one(float&, const void*, int) {}
  static __device__ void store_one(void*, int, float) {}
};
template <typename T> using In = List<T, true, false>;
template <typename T> using Out = List<T, false, true>;
template <typename T> using InOut = List<T, true, true>;

// The lists of a kernel. `for_each` lets the block's threads share elements 0 to n of all lists, and calls
// `update(x)` for each element with x[i] the element of list i: as read, then as it is to be written.
template <typename... L> struct Lists {
  static constexpr int count = sizeof...(L);

  template <typename Update> static __device__ inline void for_each(void* const (&lists)[count], int n, Update update) {
    const int vectors = aligned(lists) ? n / kVector : 0;
    for (int v = threadIdx.x; v < vectors; v += kThreads) vector_at(lists, v * kVector, update);
    const int rest = vectors * kVector + (int)threadIdx.x;
    for (int at = rest; at < n; at += kThreads * kSingles) singles_at(lists, at, n, update);
  }

 private:
  static __device__ inline bool aligned(void* const (&lists)[count]) {
    u64 bits = 0;
    int i = 0;
    ((bits |= L::size ? (u64)lists[i] : 0, ++i), ...);
    return bits % 16 == 0;
  }

  template <typename Update>
  static __device__ inline void vector_at(void* const (&lists)[count], int at, Update& update) {
    float held[count][kVector] = {};
    int i = 0;
    ((L::load(held[i], lists[i], at), ++i), ...);
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      float x[count];
#pragma unroll
      for (int j = 0; j < count; ++j) x[j] = held[j][k];
      update(x);
#pragma unroll
      for (int j = 0; j < count; ++j) held[j][k] = x[j];
    }
    i = 0;
    ((L::store(lists[i], at, held[i]), ++i), ...);
  }

  // All loads first, so that several are under way at once.
  template <typename Update>
  static __device__ inline void singles_at(void* const (&lists)[count], int first, int n, Update& update) {
    float held[kSingles][count] = {};
#pragma unroll
    for (int k = 0; k < kSingles; ++k) {
      const int at = first + k * kThreads;
      int i = 0;
      if (at < n) ((L::load_one(held[k][i], lists[i], at), ++i), ...);
    }
#pragma unroll
    for (int k = 0; k < kSingles; ++k) {
      const int at = first + k * kThreads;
      if (at >= n) break;
      update(held[k]);
      int i = 0;
      ((L::store_one(lists[i], at, held[k][i]), ++i), ...);
    }
  }
};
