// measurePeak(dtype): operations per second of one thread with the selected instruction set. Takes about 50 ms of the caller's time.
#define NAPI_VERSION 8
#include "api_peak.h"

#include "../kernels/kernels.h"

namespace shunya {
namespace {

napi_value measurePeak(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument, result;
  int32_t code = -1;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  if (count < 1 || napi_get_value_int32(env, argument, &code) != napi_ok || code < 0 || code > (int)DType::F16) {
    napi_throw_range_error(env, nullptr, "measurePeak: wanted the code of f32, bf16 or f16");
    return nullptr;
  }
  napi_create_double(env, kernels().measurePeak((DType)code), &result);
  return result;
}

}  // namespace

void addMeasurePeak(napi_env env, napi_value exports) {
  napi_value function;
  napi_create_function(env, "measurePeak", NAPI_AUTO_LENGTH, measurePeak, nullptr, &function);
  napi_set_named_property(env, exports, "measurePeak", function);
}

}  // namespace shunya
