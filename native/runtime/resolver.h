// Promises that native threads settle: one threadsafe function for the whole addon, which keeps Node alive only while a
// promise is open.
#pragma once
#define NAPI_VERSION 8
#include <node_api.h>
#include <string>
#include <vector>
#include "queue.h"

namespace shunya {

bool openResolver(napi_env env);  // false where another JavaScript thread has it open
void closeResolver();

struct Pending { uint64_t id; napi_value promise; };
Pending newPromise(napi_env env);            // these two on the JavaScript thread only
napi_value resolvedPromise(napi_env env);
// From any thread: rejects with `failure`, or resolves with the payloads as Uint8Arrays (undefined where there are none).
void settle(uint64_t id, FailurePtr failure, std::vector<std::string> payloads);

}  // namespace shunya
