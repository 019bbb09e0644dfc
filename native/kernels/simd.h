// The vector vocabulary of all kernels: VL floats at a time, loaded from and stored to any floating dtype.
//
// This header is compiled once per instruction set (SHUNYA_ISA names the namespace), with and without intrinsics. Kernels
// written in it are written once. Whole vectors and the last, partial one go through the same arithmetic, so an element's
// value never depends on its place in a vector. The build turns floating-point contraction off: a fused multiply-add
// happens where `fma` says so and nowhere else, or two instances of one formula could round differently.
#pragma once
#include <cstdint>
#include <cstring>
#include "kernels.h"
#if defined(__x86_64__)
// GCC 12 takes the placeholder operands inside its own AVX-512 header for uninitialized values.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif
#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace shunya::SHUNYA_ISA {

#if defined(__AVX512F__)
constexpr int VL = 16;
#elif defined(__AVX2__)
constexpr int VL = 8;
#else
constexpr int VL = 4;
#endif
#define SHUNYA_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(VL * 4)));
typedef int32_t vi __attribute__((vector_size(VL * 4)));
typedef uint32_t vu __attribute__((vector_size(VL * 4)));
typedef uint16_t vh __attribute__((vector_size(VL * 2)));  // VL half-precision bit patterns

SHUNYA_INLINE vf broadcast(float x) { return x - vf{}; }
SHUNYA_INLINE vu broadcastBits(uint32_t x) { return x - vu{}; }
SHUNYA_INLINE vf zero() { return vf{}; }
SHUNYA_INLINE vu bitsOf(vf x) { return (vu)x; }
SHUNYA_INLINE vf floatOf(vu x) { return (vf)x; }

// a * b + c with one rounding where the instruction set has it.
SHUNYA_INLINE vf fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
  return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
  return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

// The larger (smaller) one; where `b` is NaN, b: a clamp written max(limit, x) lets NaN through.
SHUNYA_INLINE vf max(vf a, vf b) {
#if defined(__AVX512F__)
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}
SHUNYA_INLINE vf min(vf a, vf b) {
#if defined(__AVX512F__)
  return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}

SHUNYA_INLINE vf sqrt(vf x) {
#if defined(__AVX512F__)
  return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (vf)_mm_sqrt_ps((__m128)x);
#else
  for (int l = 0; l < VL; l++) x[l] = __builtin_sqrtf(x[l]);
  return x;
#endif
}

// Lanes added in a fixed order: halves folded onto each other until one lane is left.
SHUNYA_INLINE float sumLanes(vf x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)x);
#else
  float lane[VL];
  memcpy(lane, &x, sizeof lane);
  for (int width = VL / 2; width > 0; width /= 2)
    for (int l = 0; l < width; l++) lane[l] += lane[l + width];
  return lane[0];
#endif
}
SHUNYA_INLINE float maxLanes(vf x) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)x);
#else
  float largest = x[0];
  for (int l = 1; l < VL; l++) largest = x[l] > largest ? x[l] : largest;
  return largest;
#endif
}

// ---- Half precisions, as bit patterns in the low 16 bits of a lane ----

SHUNYA_INLINE vf widenBf16(vh x) { return floatOf(__builtin_convertvector(x, vu) << 16); }

// Round to nearest even; NaN stays NaN. The hardware conversion takes fp32 subnormals to zero, the other one keeps them.
SHUNYA_INLINE vh narrowBf16(vf x) {
#if defined(__AVX512BF16__)
  return (vh)_mm512_cvtneps_pbh((__m512)x);
#else
  const vu w = bitsOf(x);
  const vu rounded = (w + 0x7fffu + ((w >> 16) & 1u)) >> 16;
  const vu quiet = (w >> 16) | 0x40u;
  return __builtin_convertvector(x == x ? rounded : quiet, vh);
#endif
}

// IEEE half precision without conversion instructions: move the exponent by a multiplication, which also makes
// subnormals right, and let fp32 addition do the rounding.
SHUNYA_INLINE vf widenF16Software(vh h) {
  const vu x = __builtin_convertvector(h, vu);
  const vu magnitude = (x & 0x7fffu) << 13;
  const vu finite = bitsOf(floatOf(magnitude) * broadcast(0x1p112f));
  const vu special = magnitude | 0x7f800000u;
  return floatOf((magnitude >= 0x0f800000u ? special : finite) | ((x & 0x8000u) << 16));
}
SHUNYA_INLINE vh narrowF16Software(vf x) {
  const vu w = bitsOf(x), sign = (w >> 16) & 0x8000u, magnitude = w & 0x7fffffffu;
  const vu normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const vu subnormal = bitsOf(floatOf(magnitude) + broadcast(0.5f)) - 0x3f000000u;  // one unit of 0.5f is 2^-24
  const vu special = magnitude > 0x7f800000u ? ((magnitude >> 13) & 0x3ffu) | 0x7e00u : broadcastBits(0x7c00u);
  const vu finite = magnitude < 0x38800000u ? subnormal : normal;
  return __builtin_convertvector((magnitude >= 0x477ff000u ? special : finite) | sign, vh);
}
SHUNYA_INLINE vf widenF16(vh x) {
#if defined(__AVX512F__)
  return (vf)_mm512_cvtph_ps((__m256i)x);
#elif defined(__F16C__)
  return (vf)_mm256_cvtph_ps((__m128i)x);
#else
  return widenF16Software(x);
#endif
}
SHUNYA_INLINE vh narrowF16(vf x) {
#if defined(__AVX512F__)
  return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__F16C__)
  return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
  return narrowF16Software(x);
#endif
}

template <DType T> SHUNYA_INLINE vh narrow(vf x) { return T == DType::BF16 ? narrowBf16(x) : narrowF16(x); }

// The value that storage of type T keeps.
template <DType T> SHUNYA_INLINE vf rounded(vf x) {
  if constexpr (T == DType::F32) return x;
  else if constexpr (T == DType::BF16) return widenBf16(narrowBf16(x));
  else return widenF16(narrowF16(x));
}

// ---- Loads and stores. `Whole` is VL elements, `Part{n}` the first n < VL of them (the rest read as zero) ----

struct Whole {};
struct Part { int n; };

template <class V> SHUNYA_INLINE V loadLanes(const void* p, Whole) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class V> SHUNYA_INLINE void storeLanes(void* p, V v, Whole) { memcpy(p, &v, sizeof v); }
#if defined(__AVX512BW__) && defined(__AVX512VL__)
template <class V> SHUNYA_INLINE V loadLanes(const void* p, Part part) {
  const __mmask16 mask = (__mmask16)((1u << part.n) - 1);
  if constexpr (sizeof(V) == 64) return (V)_mm512_maskz_loadu_epi32(mask, p);
  else return (V)_mm256_maskz_loadu_epi16(mask, p);
}
template <class V> SHUNYA_INLINE void storeLanes(void* p, V v, Part part) {
  const __mmask16 mask = (__mmask16)((1u << part.n) - 1);
  if constexpr (sizeof(V) == 64) _mm512_mask_storeu_epi32(p, mask, (__m512i)v);
  else _mm256_mask_storeu_epi16(p, mask, (__m256i)v);
}
#else
template <class V> SHUNYA_INLINE V loadLanes(const void* p, Part part) {
  V v{};
  memcpy(&v, p, part.n * (sizeof v / VL));
  return v;
}
template <class V> SHUNYA_INLINE void storeLanes(void* p, V v, Part part) { memcpy(p, &v, part.n * (sizeof v / VL)); }
#endif

template <DType T> struct StorageOf { typedef uint16_t type; };
template <> struct StorageOf<DType::F32> { typedef float type; };
template <DType T> using Storage = typename StorageOf<T>::type;  // what an element of dtype T occupies

// Elements i.. of the array at `base`, as fp32. `Extent` is Whole or Part.
template <DType T, class Extent = Whole> SHUNYA_INLINE vf load(const void* base, int64_t i, Extent extent = {}) {
  static_assert(T == DType::F32 || T == DType::BF16 || T == DType::F16, "floating storage only");
  const void* p = (const Storage<T>*)base + i;
  if constexpr (T == DType::F32) return loadLanes<vf>(p, extent);
  else if constexpr (T == DType::BF16) return widenBf16(loadLanes<vh>(p, extent));
  else return widenF16(loadLanes<vh>(p, extent));
}
template <DType T, class Extent = Whole> SHUNYA_INLINE void store(void* base, int64_t i, vf x, Extent extent = {}) {
  static_assert(T == DType::F32 || T == DType::BF16 || T == DType::F16, "floating storage only");
  void* p = (Storage<T>*)base + i;
  if constexpr (T == DType::F32) storeLanes(p, x, extent);
  else storeLanes(p, narrow<T>(x), extent);
}

// One element, through the same conversions.
template <DType T> SHUNYA_INLINE float loadOne(const void* base, int64_t i) {
  if constexpr (T == DType::F32) return ((const float*)base)[i];
  else return load<T>(base, i, Part{1})[0];
}
template <DType T> SHUNYA_INLINE void storeOne(void* base, int64_t i, float x) {
  if constexpr (T == DType::F32) ((float*)base)[i] = x;
  else store<T>(base, i, broadcast(x), Part{1});
}

// The lanes beyond part.n set to `filler`.
SHUNYA_INLINE vf keepLanes(vf x, float, Whole) { return x; }
SHUNYA_INLINE vf keepLanes(vf x, float filler, Part part) {
#if defined(__AVX512F__)
  return (vf)_mm512_mask_mov_ps(_mm512_set1_ps(filler), (__mmask16)((1u << part.n) - 1), (__m512)x);
#else
  for (int l = part.n; l < VL; l++) x[l] = filler;
  return x;
#endif
}

// A store that bypasses the caches (p on a vector boundary), where the instruction set has one. streamFence orders such
// stores before everything after it.
SHUNYA_INLINE void streamLanes(void* p, vf x) {
#if defined(__AVX512F__)
  _mm512_stream_ps((float*)p, (__m512)x);
#elif defined(__AVX2__)
  _mm256_stream_ps((float*)p, (__m256)x);
#elif defined(__SSE2__)
  _mm_stream_ps((float*)p, (__m128)x);
#else
  memcpy(p, &x, sizeof x);
#endif
}
SHUNYA_INLINE void streamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Calls body(i, Whole) for every full vector of [begin, end) and body(i, Part) for what is left.
template <class Body> SHUNYA_INLINE void eachVector(int64_t begin, int64_t end, Body&& body) {
  int64_t i = begin;
  for (; i + VL <= end; i += VL) body(i, Whole{});
  if (i < end) body(i, Part{(int)(end - i)});
}

// The sum over i in [0, count) of term(i, extent): four running vectors, added in a fixed order at the end.
template <class Term> SHUNYA_INLINE float sumTerms(int64_t count, Term&& term) {
  vf part[4] = {};
  int64_t i = 0;
  for (; i + 4 * VL <= count; i += 4 * VL)
    for (int j = 0; j < 4; j++) part[j] += term(i + j * VL, Whole{});
  eachVector(i, count, [&](int64_t c, auto extent) { part[0] += keepLanes(term(c, extent), 0, extent); });
  return sumLanes((part[0] + part[1]) + (part[2] + part[3]));
}

// Turns a run-time dtype into a template argument: calls body(tag) with decltype(tag)::value == type.
template <DType T> struct DTypeTag { static constexpr DType value = T; };
template <class Body> SHUNYA_INLINE void withDType(DType type, Body&& body) {
  if (type == DType::F32) body(DTypeTag<DType::F32>{});
  else if (type == DType::BF16) body(DTypeTag<DType::BF16>{});
  else body(DTypeTag<DType::F16>{});
}

// ---- Functions ----

// 2^n * x for whole n, with correct overflow and gradual underflow.
SHUNYA_INLINE vf scaleByPower(vf x, vf n) {
#if defined(__AVX512F__)
  return (vf)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  // In two steps: 2^n alone may lie outside the range of a float when the product does not.
  const vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
  return x * floatOf((vu)((half + 127) << 23)) * floatOf((vu)((whole - half + 127) << 23));
#endif
}

// e^x, relative error below 1.5e-7; exp(-inf) = 0, exp(0) = 1, overflow is inf, NaN stays NaN.
SHUNYA_INLINE vf vexp(vf x) {
  x = min(broadcast(89.0f), max(broadcast(-104.0f), x));
#if defined(__AVX512F__)
  const vf n = (vf)_mm512_roundscale_ps((__m512)(x * broadcast(1.44269504f)), 0);
#else
  const vf shifter = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const vf n = (x * broadcast(1.44269504f) + shifter) - shifter;
#endif
  // ln 2 in two parts; n times the first is exact, so r is as good without fused multiply-add as with it.
  const vf r = fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), x));
  vf p = broadcast(1.3814598e-3f);  // minimax on [-ln2/2, ln2/2] with exp(0) = 1 exact: 3e-9 before rounding
  p = fma(p, r, broadcast(8.3687166e-3f));
  p = fma(p, r, broadcast(4.1668388e-2f));
  p = fma(p, r, broadcast(1.6666521e-1f));
  p = fma(p, r, broadcast(0.49999994f));
  p = fma(p, r, broadcast(1.0f));
  p = fma(p, r, broadcast(1.0f));
  return scaleByPower(p, n);
}

}  // namespace shunya::SHUNYA_ISA
