// createSwap, destroySwap and injectSwapFault of the Node-API surface.
#pragma once
#include <node_api.h>

namespace shunya {
void addSwapCalls(napi_env env, napi_value exports);
}  // namespace shunya
