// The disk tier of the Node-API surface. A swap that cannot be made throws an Error like those that ops reject with.
#define NAPI_VERSION 8
#include "api_swap.h"
#include <climits>
#include <cmath>
#include "queue.h"
#include "regions.h"
#include "swaps.h"

namespace shunya {
namespace {

// The object that the one argument of a call is.
class Options {
 public:
  Options(napi_env env, napi_value object) : env_(env), object_(object) {}

  double number(const char* name, double least, double most) const {
    double v = NAN;
    if (napi_get_value_double(env_, get(name), &v) != napi_ok || !(v >= least && v <= most) || v != std::floor(v))
      throw RangeFailure{std::string(name) + ": found " + std::to_string(v) + "; wanted a whole number of " + std::to_string((int64_t)least) + " to " +
                         std::to_string((int64_t)most)};
    return v;
  }
  bool boolean(const char* name) const {
    bool v = false;
    if (napi_get_value_bool(env_, get(name), &v) != napi_ok) throw RangeFailure{std::string(name) + ": wanted a boolean"};
    return v;
  }
  std::string text(const char* name) const { return textOf(get(name), name); }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> out;
    for (const napi_value item : items(name)) out.push_back(textOf(item, name));
    return out;
  }
  std::vector<int> integers(const char* name) const {
    std::vector<int> out;
    for (const napi_value item : items(name)) {
      int32_t v = 0;
      if (napi_get_value_int32(env_, item, &v) != napi_ok) throw RangeFailure{std::string(name) + ": wanted numbers"};
      out.push_back(v);
    }
    return out;
  }

 private:
  napi_value get(const char* name) const {
    napi_value value = nullptr;
    if (napi_get_named_property(env_, object_, name, &value) != napi_ok) throw RangeFailure{std::string("wanted an object with ") + name};
    return value;
  }
  std::string textOf(napi_value value, const char* name) const {
    size_t length = 0;
    if (napi_get_value_string_utf8(env_, value, nullptr, 0, &length) != napi_ok) throw RangeFailure{std::string(name) + ": wanted text"};
    std::string out(length + 1, '\0');
    napi_get_value_string_utf8(env_, value, out.data(), out.size(), &length);
    out.resize(length);
    return out;
  }
  std::vector<napi_value> items(const char* name) const {
    const napi_value list = get(name);
    uint32_t length = 0;
    if (napi_get_array_length(env_, list, &length) != napi_ok) throw RangeFailure{std::string(name) + ": wanted an array"};
    std::vector<napi_value> out(length);
    for (uint32_t i = 0; i < length; i++) napi_get_element(env_, list, i, &out[i]);
    return out;
  }

  napi_env env_;
  napi_value object_;
};

napi_value createSwapCall(napi_env env, const Options& options) {
  SwapOptions wanted{};
  wanted.capacityBytes = (uint64_t)options.number("capacityBytes", 0, 9007199254740991.0);
  wanted.blockBytes = (size_t)options.number("blockBytes", 0, 1 << 30);
  wanted.requestsInFlight = (int)options.number("requestsInFlight", 0, INT_MAX);
  wanted.shares = options.integers("shares");
  wanted.verify = options.boolean("verify");
  wanted.direct = options.boolean("direct");
  wanted.rank = (int)options.number("rank", 0, INT_MAX);
  const int handle = createSwap(options.texts("paths"), wanted);
  const std::vector<bool> files = swapOf(handle)->direct();
  napi_value out, swap, direct, isDirect;
  napi_create_object(env, &out);
  napi_create_int32(env, handle, &swap);
  napi_create_array_with_length(env, files.size(), &direct);
  for (size_t i = 0; i < files.size(); i++) {
    napi_get_boolean(env, files[i], &isDirect);
    napi_set_element(env, direct, (uint32_t)i, isDirect);
  }
  napi_set_named_property(env, out, "swap", swap);
  napi_set_named_property(env, out, "direct", direct);
  return out;
}

napi_value destroySwapCall(napi_env env, const Options& options) {
  destroySwap((int)options.number("swap", 0, INT_MAX));
  napi_value out;
  napi_get_undefined(env, &out);
  return out;
}

napi_value injectSwapFaultCall(napi_env env, const Options& options) {
  static const struct { const char* name; DiskFault fault; } faults[] = {
      {"readError", DiskFault::ReadError}, {"diskFull", DiskFault::DiskFull}, {"short", DiskFault::Short},
      {"partial", DiskFault::Partial},     {"flip", DiskFault::Flip},         {"delay", DiskFault::Delay},
  };
  const std::string operation = options.text("operation"), kind = options.text("kind");
  if (operation != "read" && operation != "write") throw RangeFailure{"found operation \"" + operation + "\"; wanted read or write"};
  const DiskDirection direction = operation == "read" ? DiskDirection::Read : DiskDirection::Write;
  const int afterOps = (int)options.number("afterOps", 0, INT_MAX), delayMs = (int)options.number("delayMs", 0, INT_MAX);
  for (const auto& known : faults)
    if (kind == known.name) {
      swapOf((int)options.number("swap", 0, INT_MAX))->inject(direction, known.fault, afterOps, delayMs);
      napi_value out;
      napi_get_undefined(env, &out);
      return out;
    }
  throw RangeFailure{"found the fault \"" + kind + "\"; wanted readError, diskFull, short, partial, flip or delay"};
}

void throwFailure(napi_env env, const Failure& failure) {
  const auto text = [env](const std::string& s) {
    napi_value out;
    napi_create_string_utf8(env, s.c_str(), s.size(), &out);
    return out;
  };
  napi_value error;
  napi_create_error(env, text(failure.code), text(failure.message), &error);
  napi_set_named_property(env, error, "details", text(failure.details));
  napi_throw(env, error);
}

template <napi_value (*body)(napi_env, const Options&)>
napi_value guarded(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value object;
  napi_get_cb_info(env, info, &count, &object, nullptr, nullptr);
  try {
    return body(env, Options(env, object));
  } catch (const RangeFailure& failure) {
    napi_throw_range_error(env, nullptr, failure.message.c_str());
  } catch (const OpFailure& thrown) {
    throwFailure(env, *thrown.failure);
  } catch (const std::exception& failure) {
    napi_throw_error(env, nullptr, failure.what());
  }
  return nullptr;
}

template <napi_value (*body)(napi_env, const Options&)>
void add(napi_env env, napi_value exports, const char* name) {
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, guarded<body>, nullptr, &function);
  napi_set_named_property(env, exports, name, function);
}

}  // namespace

void addSwapCalls(napi_env env, napi_value exports) {
  add<createSwapCall>(env, exports, "createSwap");
  add<destroySwapCall>(env, exports, "destroySwap");
  add<injectSwapFaultCall>(env, exports, "injectSwapFault");
}

}  // namespace shunya
