// The element types of tensors, and how they are read as float32 and written from it. Includes no CUDA header: the
// source is whole as it is, for NVRTC without an include path and for a C++ compiler with an emulation of CUDA.
#pragma once

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct float16 { u16 bits; };
struct bfloat16 { u16 bits; };
typedef float float32;
// Stands where a list or an argument is absent; takes no memory traffic.
struct nothing {};

template <typename T> struct element { static constexpr int size = sizeof(T); };
template <> struct element<nothing> { static constexpr int size = 0; };

__device__ inline float to_float(float32 value) { return value; }
__device__ inline float to_float(float16 value) {
#ifdef AMPIFY_EMULATED
  return emulated::float_of_half(value.bits);
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#endif
}
__device__ inline float to_float(bfloat16 value) { return __uint_as_float((u32)value.bits << 16); }

// Rounds to nearest, ties to even, as torch does.
template <typename T> __device__ inline T from_float(float value);
template <> __device__ inline float32 from_float<float32>(float value) { return value; }
template <> __device__ inline float16 from_float<float16>(float value) {
  float16 result;
#ifdef AMPIFY_EMULATED
  result.bits = emulated::half_of_float(value);
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#endif
  return result;
}
template <> __device__ inline bfloat16 from_float<bfloat16>(float value) {
  bfloat16 result;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#else
  const u32 bits = __float_as_uint(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  result.bits = is_nan ? 0x7fff : (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
  return result;
}

// Looks at bits, so that no setting of a compiler takes it for always true.
__device__ inline bool is_finite(float value) { return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u; }
