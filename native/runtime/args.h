// Reading an op's fields in wire order (src/device/ops.ts), every one of them checked.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include "../kernels/kernels.h"
#include "regions.h"

namespace shunya {

class ArgReader {
 public:
  ArgReader(const char* op, const double* values, size_t count, bool checkSpans)
      : op_(op), values_(values), count_(count), checkSpans_(checkSpans) {}

  // A non-negative integer that a double holds exactly.
  int64_t size(const char* field, int64_t least = 0, int64_t most = 9007199254740991) {
    const double v = next(field);
    if (!(v >= (double)least && v <= (double)most && v == std::floor(v)))
      fail(field, text(v), "a whole number of " + std::to_string(least) + " to " + std::to_string(most));
    return (int64_t)v;
  }
  double real(const char* field) { return next(field); }
  bool flag(const char* field) { return next(field) != 0; }

  float probability(const char* field) {
    const float v = (float)next(field);
    if (!(v >= 0 && v < 1)) fail(field, text(v), "at least 0 and below 1");
    return v;
  }

  DType dtype(const char* field, bool floating = true) {
    const double v = next(field);
    const bool known = v == 0 || v == 1 || v == 2 || (!floating && (v == 3 || v == 4));
    if (!known) fail(field, text(v), floating ? "f32, bf16 or f16" : "a dtype code");
    return (DType)(int)v;
  }

  // Where a span was found; it is resolved once its length is known.
  struct Span { double region, offset; const char* field; };
  Span span(const char* field) { const double region = next(field), offset = next(field); return {region, offset, field}; }

  // The address of `units` units of `unitBytes`, at a multiple of `alignment`.
  void* at(const Span& s, double units, size_t unitBytes, size_t alignment) {
    if (!(units <= 1125899906842624.0)) fail(s.field, text(units) + " elements", "fewer than 2^50");
    if (!checkSpans_) return nullptr;
    if (!(s.region >= 0 && s.region <= 1e9 && s.region == std::floor(s.region))) fail(s.field, "region " + text(s.region), "a region number");
    void* address = regionRange((int)s.region, s.offset, (size_t)units * unitBytes, op_, s.field);
    if ((uint64_t)s.offset % alignment != 0)
      fail(s.field, "byte offset " + text(s.offset), "a multiple of " + std::to_string(alignment));
    if (rangeCount_ < maxRanges) ranges_[rangeCount_++] = {(const char*)address, (size_t)units * unitBytes, s.field};
    return address;
  }

  // Refuses memory that an op reads positions from, or keeps them in, where it also writes something else: a position that
  // changes under a kernel leads it anywhere. `field` must not overlap any of `others` (all operands read so far if empty).
  void checkApart(const char* field, std::initializer_list<const char*> others = {}) const {
    for (int i = 0; i < rangeCount_; i++) {
      if (!same(ranges_[i].field, field)) continue;
      for (int j = 0; j < rangeCount_; j++) {
        const bool concerned = others.size() == 0 || std::any_of(others.begin(), others.end(), [&](const char* o) { return same(o, ranges_[j].field); });
        if (j != i && concerned && ranges_[i].overlaps(ranges_[j])) fail(field, "memory that " + std::string(ranges_[j].field) + " uses", "its own");
      }
    }
  }
  // The address of `elements` elements. Of strided spans pass the extent from the first to the last element.
  void* at(const Span& s, double elements, DType type) { return at(s, elements, dtypeBytes(type), dtypeBytes(type)); }
  template <typename T> T* at(const Span& s, double elements, DType type) { return (T*)at(s, elements, type); }
  static bool isNull(const Span& s) { return s.region == -1; }
  // Without addresses a given operand still differs from none: scratch may depend on which are there.
  void* atOrNull(const Span& s, double elements, DType type) {
    if (isNull(s)) return nullptr;
    void* address = at(s, elements, type);
    return checkSpans_ ? address : this;
  }

  [[noreturn]] void fail(const char* field, const std::string& found, const std::string& wanted) const {
    throw RangeFailure{std::string(op_) + "." + field + ": found " + found + "; wanted " + wanted};
  }
  bool checksSpans() const { return checkSpans_; }
  size_t position() const { return position_; }

 private:
  double next(const char* field) {
    if (position_ >= count_) fail(field, "the end of " + std::to_string(count_) + " numbers", "more");
    return values_[position_++];
  }
  static std::string text(double v) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", v);
    return digits;
  }

  static bool same(const char* a, const char* b) { return strcmp(a, b) == 0; }
  struct Range {
    const char* begin; size_t bytes; const char* field;
    bool overlaps(const Range& o) const { return begin < o.begin + o.bytes && o.begin < begin + bytes; }
  };
  static constexpr int maxRanges = 16;  // more than any op with scratch or positions has
  Range ranges_[maxRanges];
  int rangeCount_ = 0;

  const char* op_;
  const double* values_;
  size_t count_, position_ = 0;
  const bool checkSpans_;
};

}  // namespace shunya
