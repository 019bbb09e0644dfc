// Reading an op's fields in wire order (src/device/ops.ts), every one of them checked.
#pragma once
#include <cmath>
#include <string>
#include "../kernels/kernels.h"
#include "regions.h"

namespace shunya {

class ArgReader {
 public:
  ArgReader(const char* op, const double* values, size_t count, bool checkSpans)
      : op_(op), values_(values), count_(count), checkSpans_(checkSpans) {}

  // A non-negative integer below 2^53.
  int64_t size(const char* field, int64_t least = 0) {
    const double v = next(field);
    if (!(v >= (double)least && v <= 9007199254740992.0 && v == std::floor(v)))
      fail(field, std::to_string(v), "a whole number of at least " + std::to_string(least));
    return (int64_t)v;
  }
  float real(const char* field) { return (float)next(field); }
  bool flag(const char* field) { return next(field) != 0; }

  DType dtype(const char* field, bool floating = true) {
    const double v = next(field);
    const bool known = v == 0 || v == 1 || v == 2 || (!floating && (v == 3 || v == 4));
    if (!known) fail(field, std::to_string(v), floating ? "f32, bf16 or f16" : "a dtype code");
    return (DType)(int)v;
  }

  // Where a span was found; it is resolved once its length is known.
  struct Span { double region, offset; const char* field; };
  Span span(const char* field) { const double region = next(field), offset = next(field); return {region, offset, field}; }

  // The address of `elements` elements. With `strided` spans pass the extent from the first to the last element.
  void* at(const Span& s, double elements, DType type) {
    if (elements > 9007199254740992.0 / 8) fail(s.field, std::to_string(elements) + " elements", "fewer");
    const size_t width = dtypeBytes(type);
    if (!checkSpans_) return nullptr;
    if (s.region != std::floor(s.region) || std::fabs(s.region) > 1e9) fail(s.field, std::to_string(s.region), "a region number");
    if (s.offset != s.offset || std::fmod(s.offset, (double)width) != 0)
      fail(s.field, "byte offset " + std::to_string(s.offset), "a multiple of " + std::to_string(width));
    return regionRange((int)s.region, s.offset, (size_t)elements * width, std::string(op_) + "." + s.field);
  }
  template <typename T> T* at(const Span& s, double elements, DType type) { return (T*)at(s, elements, type); }
  static bool isNull(const Span& s) { return s.region < 0; }
  void* atOrNull(const Span& s, double elements, DType type) { return isNull(s) ? nullptr : at(s, elements, type); }

  void end() const {
    if (position_ != count_)
      throw RangeFailure{std::string(op_) + ": found " + std::to_string(count_) + " numbers; wanted " + std::to_string(position_)};
  }
  [[noreturn]] void fail(const char* field, const std::string& found, const std::string& wanted) const {
    throw RangeFailure{std::string(op_) + "." + field + ": found " + found + "; wanted " + wanted};
  }
  bool checksSpans() const { return checkSpans_; }

 private:
  double next(const char* field) {
    if (position_ >= count_)
      throw RangeFailure{std::string(op_) + "." + field + ": found only " + std::to_string(count_) + " numbers; wanted more"};
    return values_[position_++];
  }

  const char* op_;
  const double* values_;
  size_t count_, position_ = 0;
  const bool checkSpans_;
};

}  // namespace shunya
