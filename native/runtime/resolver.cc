#include "resolver.h"
#include <cstring>
#include <map>

namespace shunya {

namespace {

struct Settled { uint64_t id; FailurePtr failure; std::vector<std::string> payloads; };

napi_threadsafe_function function = nullptr;
std::map<uint64_t, napi_deferred> open;  // JavaScript thread only
uint64_t lastId = 0;
std::mutex mutex;                        // guards the two below
std::vector<Settled>& settled = *new std::vector<Settled>;  // never destroyed: see regions.cc
bool closed = true;

napi_value text(napi_env env, const std::string& s) {
  napi_value out;
  napi_create_string_utf8(env, s.c_str(), s.size(), &out);
  return out;
}

napi_value errorValue(napi_env env, const Failure& failure) {
  napi_value error;
  napi_create_error(env, text(env, failure.code), text(env, failure.message), &error);
  napi_set_named_property(env, error, "details", text(env, failure.details));
  return error;
}

napi_value payloadValue(napi_env env, const std::vector<std::string>& payloads) {
  napi_value out;
  if (payloads.empty()) {
    napi_get_undefined(env, &out);
    return out;
  }
  napi_create_array_with_length(env, payloads.size(), &out);
  for (size_t i = 0; i < payloads.size(); i++) {
    void* data = nullptr;
    napi_value buffer, bytes;
    napi_create_arraybuffer(env, payloads[i].size(), &data, &buffer);
    if (!payloads[i].empty()) memcpy(data, payloads[i].data(), payloads[i].size());
    napi_create_typedarray(env, napi_uint8_array, payloads[i].size(), buffer, 0, &bytes);
    napi_set_element(env, out, (uint32_t)i, bytes);
  }
  return out;
}

void deliver(napi_env env, napi_value, void*, void*) {
  std::vector<Settled> ready;
  {
    std::lock_guard<std::mutex> lock(mutex);
    ready.swap(settled);
  }
  if (!env) return;  // the environment is going away
  for (const Settled& s : ready) {
    const auto found = open.find(s.id);
    if (found == open.end()) continue;
    if (s.failure) napi_reject_deferred(env, found->second, errorValue(env, *s.failure));
    else napi_resolve_deferred(env, found->second, payloadValue(env, s.payloads));
    open.erase(found);
  }
  if (open.empty() && function) napi_unref_threadsafe_function(env, function);
}

}  // namespace

bool openResolver(napi_env env) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!closed) return false;
  napi_create_threadsafe_function(env, nullptr, nullptr, text(env, "shunya"), 0, 1, nullptr, nullptr, nullptr, deliver, &function);
  napi_unref_threadsafe_function(env, function);
  settled.clear();
  open.clear();
  closed = false;
  return true;
}

void closeResolver() {
  napi_threadsafe_function ending;
  {
    std::lock_guard<std::mutex> lock(mutex);
    closed = true;
    ending = function;
    function = nullptr;
  }
  if (ending) napi_release_threadsafe_function(ending, napi_tsfn_abort);
}

Pending newPromise(napi_env env) {
  Pending pending{++lastId, nullptr};
  napi_deferred deferred;
  napi_create_promise(env, &deferred, &pending.promise);
  if (open.empty()) napi_ref_threadsafe_function(env, function);
  open[pending.id] = deferred;
  return pending;
}

napi_value resolvedPromise(napi_env env) {
  napi_deferred deferred;
  napi_value promise, nothing;
  napi_create_promise(env, &deferred, &promise);
  napi_get_undefined(env, &nothing);
  napi_resolve_deferred(env, deferred, nothing);
  return promise;
}

void settle(uint64_t id, FailurePtr failure, std::vector<std::string> payloads) {
  std::lock_guard<std::mutex> lock(mutex);
  if (closed) return;
  const bool first = settled.empty();
  settled.push_back({id, std::move(failure), std::move(payloads)});
  if (first) napi_call_threadsafe_function(function, nullptr, napi_tsfn_nonblocking);
}

}  // namespace shunya
