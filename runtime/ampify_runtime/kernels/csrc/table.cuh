// The table of tensors that a multi-tensor kernel gets by value, and the part of them that a block works on.
#pragma once
#include "lists.cuh"

// The host gives both. A kernel's parameters may take 32,764 bytes from CUDA 12.1 on and 4,096 before.
#ifndef AMPIFY_TABLE_BYTES
#define AMPIFY_TABLE_BYTES 32256
#endif
#ifndef AMPIFY_CHUNK
#define AMPIFY_CHUNK 16384
#endif
// Elements of a tensor that one block works on.
constexpr int kChunk = AMPIFY_CHUNK;

template <int LISTS> struct Table {
  static constexpr int capacity = (AMPIFY_TABLE_BYTES - 8) / (8 * LISTS + 16);
  void* lists[LISTS][capacity];
  i64 elements[capacity];
  u32 first_block[capacity];  // of the blocks of this launch
  u32 index[capacity];        // of the tensor in the caller's list
  u32 count;
};

// Where each tensor's blocks begin and end, for what sums up their results.
struct Spans {
  static constexpr int capacity = (AMPIFY_TABLE_BYTES - 8) / 8;
  u32 first_block[capacity];
  u32 index[capacity];
  u32 count;
  u32 blocks;
  __device__ u32 end_of(u32 tensor) const { return tensor + 1 < count ? first_block[tensor + 1] : blocks; }
};

// What a block works on: up to kChunk elements of one tensor of each list.
template <typename L> struct Chunk {
  void* lists[L::count];
  int elements;
  u32 index;

  template <typename Update> __device__ void for_each(Update update) const { L::for_each(lists, elements, update); }
};

// The last tensor that begins at this block or before; an empty tensor begins where the next one does.
template <int LISTS> __device__ inline int tensor_of_block(const Table<LISTS>& table) {
  int low = 0, high = (int)table.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= blockIdx.x) low = middle; else high = middle - 1;
  }
  return low;
}

template <typename... L>
__device__ inline Chunk<Lists<L...>> chunk_of_block(const Table<sizeof...(L)>& table, Lists<L...>) {
  Chunk<Lists<L...>> chunk;
  const int tensor = tensor_of_block(table);
  const i64 start = (i64)(blockIdx.x - table.first_block[tensor]) * kChunk;
  const i64 left = table.elements[tensor] - start;
  chunk.elements = left < kChunk ? (int)left : kChunk;
  chunk.index = table.index[tensor];
  int i = 0;
  ((chunk.lists[i] = (char*)table.lists[i][tensor] + start * L::size, ++i), ...);
  return chunk;
}
