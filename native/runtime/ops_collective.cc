// Collectives: one pass over shared memory each, between two barriers.
#include "group.h"
#include "ops.h"

namespace shunya {

namespace {

struct SegmentArg { char *whole, *own; uint64_t wholeOffset, ownOffset; int64_t stride, start, count; };

// What peers read must lie in this rank's arena, the only memory of it that they map.
void checkArena(ArgReader& a, const ArgReader::Span& span, const Group* group) {
  if (group && span.region != group->ownArena()) a.fail(span.field, "region " + std::to_string((int)span.region), "this rank's arena");
}

std::vector<SegmentArg> readSegments(ArgReader& a, const Group* group, bool peersReadWhole, DType wholeType, DType ownType) {
  const int world = group ? group->world() : 1;
  const int64_t n = a.size("segments");
  if (n > maxSegments) a.fail("segments", std::to_string(n), "at most " + std::to_string(maxSegments));
  std::vector<SegmentArg> segments;
  for (int64_t i = 0; i < n; i++) {
    const auto whole = a.span("segments.whole");
    SegmentArg s{};
    s.stride = a.size("segments.stride"); s.start = a.size("segments.start"); s.count = a.size("segments.count");
    const auto own = a.span("segments.own");
    if (s.start + s.count > s.stride) a.fail("segments.count", std::to_string(s.start + s.count), "start + count within the stride");
    checkArena(a, peersReadWhole ? whole : own, group);
    s.whole = a.at<char>(whole, (double)s.stride * world, wholeType);
    s.own = a.at<char>(own, (double)s.count, ownType);
    s.wholeOffset = (uint64_t)whole.offset; s.ownOffset = (uint64_t)own.offset;
    segments.push_back(s);
  }
  return segments;
}

struct Call { std::shared_ptr<Group> group; CallHeader header; };

Call readCall(ArgReader& a, GroupOp op) {
  const int64_t handle = a.size("group"), tag = a.size("tag");
  Call call{a.checksSpans() ? groupOf((int)handle) : nullptr, {}};
  call.header.op = op;
  call.header.tag = (uint32_t)tag;
  return call;
}

}  // namespace

PreparedOp prepareReduceScatter(ArgReader& a, int) {
  Call c = readCall(a, ReduceScatterOp);
  const DType from = a.dtype("srcType"), to = a.dtype("dstType");
  const float factor = a.real("factor"); const bool accumulate = a.flag("accumulate");
  const int world = c.group ? c.group->world() : 1, rank = c.group ? c.group->rank() : 0;
  const auto segments = readSegments(a, c.group.get(), true, from, to);
  c.header.dtype = (uint32_t)from; c.header.segments = (uint32_t)segments.size();
  for (size_t i = 0; i < segments.size(); i++) { c.header.count += segments[i].count; c.header.offsets[i] = segments[i].wholeOffset; }
  return {[=](Pool& pool, void*) {
    c.group->call(0, c.header, [&] {
      std::vector<const void*> sources(world);
      for (size_t i = 0; i < segments.size(); i++) {
        const SegmentArg& s = segments[i];
        const size_t width = dtypeBytes(from), first = ((size_t)rank * s.stride + s.start) * width;
        for (int q = 0; q < world; q++)
          sources[q] = c.group->peer(q, c.group->headerOf(0, q).offsets[i] + first, s.count * width);
        const bool nothingToDo = world == 1 && sources[0] == s.own && from == to && factor == 1 && !accumulate;
        if (!nothingToDo) kernels().reduce(s.count, sources.data(), world, from, s.own, to, factor, accumulate, pool);
      }
    });
  }};
}

PreparedOp prepareAllGather(ArgReader& a, int) {
  Call c = readCall(a, AllGatherOp);
  const DType type = a.dtype("dtype", false);
  const int world = c.group ? c.group->world() : 1, rank = c.group ? c.group->rank() : 0;
  const auto segments = readSegments(a, c.group.get(), false, type, type);
  c.header.dtype = (uint32_t)type; c.header.segments = (uint32_t)segments.size();
  for (size_t i = 0; i < segments.size(); i++) { c.header.count += segments[i].count; c.header.offsets[i] = segments[i].ownOffset; }
  return {[=](Pool& pool, void*) {
    c.group->call(0, c.header, [&] {
      for (size_t i = 0; i < segments.size(); i++) {
        const SegmentArg& s = segments[i];
        const size_t width = dtypeBytes(type), bytes = s.count * width;
        for (int step = 0; step < world; step++) {
          const int q = (rank + step) % world;  // each rank starts elsewhere: they do not all read one peer at once
          const char* src = c.group->peer(q, c.group->headerOf(0, q).offsets[i], bytes);
          char* dst = s.whole + ((size_t)q * s.stride + s.start) * width;
          if (src != dst && bytes > 0) kernels().copy(bytes, src, dst, pool);
        }
      }
    });
  }};
}

PreparedOp prepareBroadcast(ArgReader& a, int) {
  Call c = readCall(a, BroadcastOp);
  const int64_t bytes = a.size("bytes"), root = a.size("root");
  const int world = c.group ? c.group->world() : 1;
  if (c.group && root >= world) a.fail("root", std::to_string(root), "a rank below " + std::to_string(world));
  const auto span = a.span("data");
  checkArena(a, span, c.group.get());
  char* data = a.at<char>(span, (double)((bytes + 1) / 2), DType::BF16);
  c.header.segments = 1; c.header.count = bytes; c.header.offsets[0] = (uint64_t)span.offset; c.header.dtype = (uint32_t)root;
  return {[=](Pool& pool, void*) {
    c.group->call(0, c.header, [&] {
      if (root == c.group->rank()) return;
      kernels().copy(bytes, c.group->peer((int)root, c.group->headerOf(0, (int)root).offsets[0], bytes), data, pool);
    });
  }};
}

PreparedOp prepareBarrier(ArgReader& a, int) {
  Call c = readCall(a, BarrierOp);
  return {[=](Pool&, void*) { c.group->call(0, c.header, [] {}); }};
}

}  // namespace shunya
