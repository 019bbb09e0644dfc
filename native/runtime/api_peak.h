// measurePeak of the Node-API surface, for benchmarks.
#pragma once
#include <node_api.h>

namespace shunya {
void addMeasurePeak(napi_env env, napi_value exports);
}  // namespace shunya
