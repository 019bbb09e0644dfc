// The Node-API surface: see src/device/native.ts for what each function means. No C++ exception leaves this file.
#define NAPI_VERSION 8
#include <node_api.h>
#include <sys/mman.h>
#include <climits>
#include <cmath>
#include <cstring>
#include "api_peak.h"
#include "api_swap.h"
#include "crc32.h"
#include "element_digest.h"
#include "groups.h"
#include "ops.h"
#include "queue.h"
#include "regions.h"
#include "resolver.h"
#include "spin.h"
#include "swaps.h"

namespace shunya {

namespace {

constexpr int maxWorld = 4096;
// By handle; only the JavaScript thread touches the list. Never destroyed: see regions.cc.
std::vector<std::shared_ptr<Queue>>& queues = *new std::vector<std::shared_ptr<Queue>>;

// One call's arguments, checked as they are taken.
class CallArgs {
 public:
  CallArgs(napi_env env, napi_callback_info info) : env_(env) { napi_get_cb_info(env, info, &count_, values_, nullptr, nullptr); }

  double number(size_t i, const char* what, double least, double most) {
    double v = NAN;
    if (i >= count_ || napi_get_value_double(env_, values_[i], &v) != napi_ok || !(v >= least && v <= most) || v != std::floor(v))
      throw RangeFailure{std::string(what) + ": found " + std::to_string(v) + "; wanted a whole number of " + std::to_string((int64_t)least) +
                         " to " + std::to_string((int64_t)most)};
    return v;
  }
  int integer(size_t i, const char* what, int least = 0, int most = INT_MAX) { return (int)number(i, what, least, most); }
  size_t bytes(size_t i, const char* what) { return (size_t)number(i, what, 0, 9007199254740991.0); }
  bool boolean(size_t i) { bool v = false; if (i < count_) napi_get_value_bool(env_, values_[i], &v); return v; }

  std::string text(size_t i) {
    char buffer[64]; size_t length = 0;
    if (i >= count_ || napi_get_value_string_utf8(env_, values_[i], buffer, sizeof buffer, &length) != napi_ok) return "";
    return {buffer, length};
  }

  struct Array { void* data; size_t length; };
  Array typed(size_t i, napi_typedarray_type wanted, const char* what) {
    napi_typedarray_type type; Array a{};
    if (i >= count_ || napi_get_typedarray_info(env_, values_[i], &type, &a.length, &a.data, nullptr, nullptr) != napi_ok || type != wanted)
      throw RangeFailure{std::string(what) + ": wanted a typed array of the right kind"};
    return a;
  }

  std::vector<int> integers(size_t i, const char* what) {
    uint32_t length = 0;
    if (i >= count_ || napi_get_array_length(env_, values_[i], &length) != napi_ok) throw RangeFailure{std::string(what) + ": wanted an array"};
    std::vector<int> out(length);
    for (uint32_t k = 0; k < length; k++) {
      napi_value item;
      if (napi_get_element(env_, values_[i], k, &item) != napi_ok || napi_get_value_int32(env_, item, &out[k]) != napi_ok)
        throw RangeFailure{std::string(what) + ": wanted numbers"};
    }
    return out;
  }

  const std::shared_ptr<Queue>& queue(size_t i) {
    const int handle = integer(i, "queue");
    if (handle >= (int)queues.size() || !queues[handle]) throw RangeFailure{"found queue " + std::to_string(handle) + "; wanted an open queue"};
    return queues[handle];
  }

 private:
  napi_env env_;
  size_t count_ = 6;
  napi_value values_[6];
};

napi_value toNumber(napi_env env, double v) { napi_value out; napi_create_double(env, v, &out); return out; }
napi_value undefined(napi_env env) { napi_value out; napi_get_undefined(env, &out); return out; }

using Body = napi_value (*)(napi_env, CallArgs&);

template <Body body>
napi_value guarded(napi_env env, napi_callback_info info) {
  try {
    CallArgs args(env, info);
    return body(env, args);
  } catch (const RangeFailure& failure) {
    napi_throw_range_error(env, nullptr, failure.message.c_str());
  } catch (const std::exception& failure) {
    napi_throw_error(env, nullptr, failure.what());
  }
  return nullptr;
}

napi_value isa(napi_env env, CallArgs&) {
  int n = 0;
  const Kernels* const* all = availableKernels(&n);
  napi_value out, list, name;
  napi_create_object(env, &out);
  napi_create_array_with_length(env, n, &list);
  for (int i = 0; i < n; i++) {
    napi_create_string_utf8(env, all[i]->name, NAPI_AUTO_LENGTH, &name);
    napi_set_element(env, list, i, name);
  }
  napi_set_named_property(env, out, "available", list);
  napi_create_string_utf8(env, kernels().name, NAPI_AUTO_LENGTH, &name);
  napi_set_named_property(env, out, "selected", name);
  return out;
}

napi_value selectIsa(napi_env env, CallArgs& a) {
  const std::string name = a.text(0);
  if (!selectKernels(name.c_str())) throw RangeFailure{"found instruction set \"" + name + "\"; wanted one that this machine runs"};
  return undefined(env);
}

napi_value createRegionCall(napi_env env, CallArgs& a) { return toNumber(env, createRegion(a.bytes(0, "bytes"))); }
napi_value alignedMemory(napi_env env, CallArgs& a) {
  const size_t bytes = a.bytes(0, "bytes");
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw RangeFailure{"alignedMemory: the system has no " + std::to_string(bytes) + " bytes"};
  const auto unmap = [](napi_env, void* memory, void* bytes) { munmap(memory, (size_t)bytes); };
  napi_value out;
  napi_create_external_arraybuffer(env, memory, bytes, unmap, (void*)bytes, &out);
  return out;
}
napi_value elementDigestCall(napi_env env, CallArgs& a) {
  const auto values = a.typed(0, napi_float32_array, "values");
  const uint64_t first = (uint64_t)a.number(1, "first", 0, 9007199254740991.0);
  napi_value out;
  napi_create_bigint_uint64(env, elementDigest((const uint32_t*)values.data, values.length, first), &out);
  return out;
}
napi_value createSharedMemoryCall(napi_env env, CallArgs& a) { return toNumber(env, createSharedMemory(a.bytes(0, "bytes"))); }
napi_value openRegionCall(napi_env env, CallArgs& a) { return toNumber(env, openRegion(a.integer(0, "descriptor"), a.bytes(1, "bytes"))); }
napi_value closeRegionCall(napi_env env, CallArgs& a) {
  const RegionPtr closed = closeRegion(a.integer(0, "region"));
  // Ops that are under way may still touch it.
  for (auto& queue : queues)
    if (queue) queue->hold(closed);
  return undefined(env);
}
napi_value lockRegionCall(napi_env env, CallArgs& a) {
  napi_value out;
  napi_get_boolean(env, lockRegion(a.integer(0, "region"), a.bytes(1, "offset"), a.bytes(2, "bytes")), &out);
  return out;
}

napi_value readRegion(napi_env env, CallArgs& a) {
  const auto into = a.typed(2, napi_uint8_array, "into");
  memcpy(into.data, regionRange(a.integer(0, "region"), (double)a.bytes(1, "offset"), into.length, "readRegion"), into.length);
  return undefined(env);
}
napi_value writeRegion(napi_env env, CallArgs& a) {
  const auto from = a.typed(2, napi_uint8_array, "from");
  memcpy(regionRange(a.integer(0, "region"), (double)a.bytes(1, "offset"), from.length, "writeRegion"), from.data, from.length);
  return undefined(env);
}

napi_value crc32Call(napi_env env, CallArgs& a) {
  const auto bytes = a.typed(0, napi_uint8_array, "bytes");
  return toNumber(env, crc32((const uint8_t*)bytes.data, bytes.length, (uint32_t)a.number(1, "value", 0, 0xffffffff)));
}

napi_value createQueue(napi_env env, CallArgs& a) {
  queues.push_back(std::make_shared<Queue>((int)a.number(0, "threads", 1, 1024)));
  return toNumber(env, (double)queues.size() - 1);
}
napi_value destroyQueue(napi_env env, CallArgs& a) {
  const auto queue = a.queue(0);
  queues[a.integer(0, "queue")] = nullptr;
  queue->stop();
  return undefined(env);
}

napi_value issue(napi_env env, CallArgs& a) {
  const auto& queue = a.queue(0);
  const auto values = a.typed(2, napi_float64_array, "args");
  return toNumber(env, (double)queue->push(prepareTask(a.integer(1, "op"), (const double*)values.data, values.length, queue->workers())));
}

napi_value upload(napi_env env, CallArgs& a) {
  const auto queue = a.queue(0);
  const auto from = a.typed(3, napi_uint8_array, "from");
  void* to = regionRange(a.integer(1, "region"), (double)a.bytes(2, "offset"), from.length, "upload");
  auto held = std::make_shared<std::vector<char>>((const char*)from.data, (const char*)from.data + from.length);
  return toNumber(env, (double)queue->push({[to, held](OpContext& on, void*) { kernels().copy((int64_t)held->size(), held->data(), to, on.pool); }}));
}

napi_value scratchBytes(napi_env env, CallArgs& a) {
  const auto values = a.typed(1, napi_float64_array, "args");
  const int threads = (int)a.number(2, "threads", 1, 1024);
  return toNumber(env, (double)opScratchBytes(a.integer(0, "op"), (const double*)values.data, values.length, threads));
}

napi_value waitCall(napi_env env, CallArgs& a) {
  const auto queue = a.queue(0), other = a.queue(1);
  const auto sequence = (uint64_t)a.bytes(2, "sequence");
  if (queue == other && sequence > queue->issued())
    throw RangeFailure{"wait: found op " + std::to_string(sequence) + " of the same queue, after the wait; wanted an earlier one"};
  return toNumber(env, (double)queue->pushWait(other, sequence));
}

napi_value reached(napi_env env, CallArgs& a) {
  const auto queue = a.queue(0);
  const auto sequence = (uint64_t)a.bytes(1, "sequence");
  // An op that is about to be done is cheaper to watch than to be woken by. Longer ops never hold the event loop up.
  const bool isNear = sequence <= queue->completed() + 4;
  if (isNear) spin(2, [&] { return queue->completed() >= sequence; });
  if (queue->succeeded(sequence)) return resolvedPromise(env);
  Pending pending = newPromise(env);
  FailurePtr failure;
  const bool isListening = queue->listen(sequence, [id = pending.id](FailurePtr failure) { settle(id, failure, {}); }, &failure);
  if (!isListening) settle(pending.id, failure, {});
  return pending.promise;
}

napi_value completed(napi_env env, CallArgs& a) { return toNumber(env, (double)a.queue(0)->completed()); }

napi_value trace(napi_env env, CallArgs& a) {
  const std::vector<double> values = a.queue(0)->takeTrace(a.boolean(1));
  void* data = nullptr; napi_value buffer, out;
  napi_create_arraybuffer(env, values.size() * 8, &data, &buffer);
  if (!values.empty()) memcpy(data, values.data(), values.size() * 8);
  napi_create_typedarray(env, napi_float64_array, values.size(), buffer, 0, &out);
  return out;
}

napi_value createGroupCall(napi_env env, CallArgs& a) {
  const int rank = a.integer(0, "rank"), world = a.integer(1, "world", 1, maxWorld), control = a.integer(2, "control");
  return toNumber(env, createGroup(rank, world, control, a.integers(3, "arenas"), a.integer(4, "deadlineMs")));
}
napi_value destroyGroupCall(napi_env env, CallArgs& a) { destroyGroup(a.integer(0, "group")); return undefined(env); }
napi_value controlBytes(napi_env env, CallArgs& a) { return toNumber(env, (double)Group::controlBytes(a.integer(0, "world", 1, maxWorld))); }
napi_value abortGroup(napi_env env, CallArgs& a) {
  const int control = a.integer(0, "control"), rank = a.integer(1, "rank"), exitCode = a.integer(2, "exitCode", INT_MIN);
  regionRange(control, 0, Group::controlBytes(std::max(1, std::min(rank + 1, maxWorld))), "abortGroup", "control");
  Group::abort(*regionOf(control, "abortGroup"), rank, exitCode);
  return undefined(env);
}

template <GroupChannel channel> napi_value exchange(napi_env env, CallArgs& a) {
  const auto group = groupOf(a.integer(0, "group"));
  const auto tag = (uint64_t)a.bytes(1, "tag");
  const auto payload = a.typed(2, napi_uint8_array, "payload");
  if (payload.length > maxExchangeBytes)
    throw RangeFailure{"exchange: found " + std::to_string(payload.length) + " bytes; wanted at most " + std::to_string(maxExchangeBytes)};
  const Pending pending = newPromise(env);
  auto received = std::make_shared<std::vector<std::string>>();
  Queue& queue = group->exchangeQueue(channel);
  // The group outlives its own queue's thread, so the task needs no hold on it.
  const uint64_t sequence = queue.push({[group = group.get(), tag, received, own = std::string((const char*)payload.data, payload.length)](
                                            OpContext& on, void*) { *received = group->exchange(channel, tag, own, on.stopping); }});
  FailurePtr failure;
  const bool isListening = queue.listen(
      sequence, [id = pending.id, received](FailurePtr failure) { settle(id, failure, std::move(*received)); }, &failure);
  if (!isListening) settle(pending.id, failure, std::move(*received));
  return pending.promise;
}

// For the test that holds both op tables together.
napi_value opCount(napi_env env, CallArgs&) { return toNumber(env, opRowCount); }
napi_value opArity(napi_env env, CallArgs& a) { return toNumber(env, opRow(a.integer(0, "op")).arity); }

void cleanUp(void*) {
  stopAllGroups();
  for (auto& queue : queues)
    if (queue) queue->requestStop();
  for (auto& queue : queues)
    if (queue) queue->stop();
  queues.clear();
  destroyAllSwaps();
  closeResolver();
}

template <Body body>
void add(napi_env env, napi_value exports, const char* name) {
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, guarded<body>, nullptr, &function);
  napi_set_named_property(env, exports, name, function);
}

}  // namespace

napi_value initialise(napi_env env, napi_value exports) {
  if (!openResolver(env)) {
    napi_throw_error(env, nullptr, "the native core serves one JavaScript thread, and another one of this process has loaded it");
    return nullptr;
  }
  add<isa>(env, exports, "isa");
  add<selectIsa>(env, exports, "selectIsa");
  add<createRegionCall>(env, exports, "createRegion");
  add<alignedMemory>(env, exports, "alignedMemory");
  add<elementDigestCall>(env, exports, "elementDigest");
  add<createSharedMemoryCall>(env, exports, "createSharedMemory");
  add<openRegionCall>(env, exports, "openRegion");
  add<closeRegionCall>(env, exports, "closeRegion");
  add<lockRegionCall>(env, exports, "lockRegion");
  add<readRegion>(env, exports, "readRegion");
  add<writeRegion>(env, exports, "writeRegion");
  add<crc32Call>(env, exports, "crc32");
  add<createQueue>(env, exports, "createQueue");
  add<destroyQueue>(env, exports, "destroyQueue");
  add<issue>(env, exports, "issue");
  add<upload>(env, exports, "upload");
  add<scratchBytes>(env, exports, "scratchBytes");
  add<waitCall>(env, exports, "wait");
  add<reached>(env, exports, "reached");
  add<completed>(env, exports, "completed");
  add<trace>(env, exports, "trace");
  add<createGroupCall>(env, exports, "createGroup");
  add<destroyGroupCall>(env, exports, "destroyGroup");
  add<controlBytes>(env, exports, "controlBytes");
  add<exchange<exchanges>>(env, exports, "exchange");
  add<exchange<asides>>(env, exports, "exchangeAside");
  add<abortGroup>(env, exports, "abortGroup");
  add<opCount>(env, exports, "opCount");
  add<opArity>(env, exports, "opArity");
  addMeasurePeak(env, exports);
  addSwapCalls(env, exports);
  napi_add_env_cleanup_hook(env, cleanUp, nullptr);
  return exports;
}

}  // namespace shunya

NAPI_MODULE_INIT() { return shunya::initialise(env, exports); }
