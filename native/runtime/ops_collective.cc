// Collectives: one pass over shared memory each, between two barriers.
#include "group.h"
#include "groups.h"
#include "ops.h"

namespace shunya {

namespace {

struct Piece { char *whole, *own; int64_t stride, start, count; };

// What an op of a group holds until it runs. `group` is null where only scratch is asked for.
struct Collective {
  std::shared_ptr<Group> group;
  CallHeader header;
  std::vector<uint64_t> offsets;  // what peers read of each piece, in this rank's arena
  std::vector<Piece> pieces;
  int world() const { return group ? group->world() : 1; }
  int rank() const { return group ? group->rank() : 0; }

  void call(const OpContext& on, const std::function<void()>& body) const {
    group->call(collectives, header, offsets, on.stopping, body);
  }
  // Bytes of rank q's piece i, `skip` bytes beyond the offset that it posted.
  char* peer(int q, size_t i, size_t skip, size_t bytes) const {
    const uint64_t offset = q == rank() ? offsets[i] : group->offsetOf(q, i);
    return group->peer(q, offset + skip, bytes);
  }
};
using CollectivePtr = std::shared_ptr<Collective>;

CollectivePtr readCall(ArgReader& a, GroupOp op) {
  auto c = std::make_shared<Collective>();
  const int64_t handle = a.size("group", 0, INT32_MAX);
  if (a.checksSpans()) c->group = groupOf((int)handle);
  c->header.op = op;
  c->header.tag = (uint64_t)a.size("tag");
  return c;
}

void mix(uint64_t& hash, uint64_t value) { hash = (hash ^ value) * 0x100000001b3; }

// All memory of a collective lies in this rank's arena, the only memory of it that peers map.
char* inArena(ArgReader& a, const Collective& c, const ArgReader::Span& span, double units, size_t unitBytes) {
  char* address = (char*)a.at(span, units, unitBytes, unitBytes);
  if (c.group && span.region != c.group->ownArena())
    a.fail(span.field, "region " + std::to_string((int)span.region), "this rank's arena, region " + std::to_string(c.group->ownArena()));
  return address;
}

void readPieces(ArgReader& a, Collective& c, bool peersReadWhole, DType wholeType, DType ownType) {
  const int64_t n = a.size("segments", 0, maxSegments);
  c.header.dtype = (uint32_t)wholeType;
  mix(c.header.shape, n);
  for (int64_t i = 0; i < n; i++) {
    Piece p{};
    const auto whole = a.span("segments.whole");
    p.stride = a.size("segments.stride"); p.start = a.size("segments.start"); p.count = a.size("segments.count");
    const auto own = a.span("segments.own");
    if (p.start + p.count > p.stride) a.fail("segments.count", std::to_string(p.start + p.count), "start + count within the stride");
    p.whole = inArena(a, c, whole, (double)p.stride * c.world(), dtypeBytes(wholeType));
    p.own = inArena(a, c, own, (double)p.count, dtypeBytes(ownType));
    c.offsets.push_back((uint64_t)(peersReadWhole ? whole : own).offset);
    c.pieces.push_back(p);
    c.header.count += p.count;
    for (const int64_t size : {p.stride, p.start, p.count}) mix(c.header.shape, size);
  }
}

}  // namespace

PreparedOp prepareReduceScatter(ArgReader& a, int) {
  const CollectivePtr c = readCall(a, ReduceScatterOp);
  const DType from = a.dtype("srcType"), to = a.dtype("dstType");
  const float factor = (float)a.real("factor"); const bool accumulate = a.flag("accumulate");
  readPieces(a, *c, true, from, to);
  return {[=](OpContext& on, void*) {
    c->call(on, [&] {
      std::vector<const void*> sources(c->world());
      for (size_t i = 0; i < c->pieces.size(); i++) {
        const Piece& p = c->pieces[i];
        const size_t width = dtypeBytes(from), skip = ((size_t)c->rank() * p.stride + p.start) * width;
        for (int q = 0; q < c->world(); q++) sources[q] = c->peer(q, i, skip, p.count * width);
        const bool isDone = c->world() == 1 && sources[0] == p.own && from == to && factor == 1 && !accumulate;
        if (!isDone) kernels().reduce(p.count, sources.data(), c->world(), from, p.own, to, factor, accumulate ? Join::AddRounded : Join::Overwrite, on.pool);
      }
    });
  }};
}

PreparedOp prepareAllGather(ArgReader& a, int) {
  const CollectivePtr c = readCall(a, AllGatherOp);
  const DType type = a.dtype("dtype", false);
  readPieces(a, *c, false, type, type);
  return {[=](OpContext& on, void*) {
    c->call(on, [&] {
      for (size_t i = 0; i < c->pieces.size(); i++) {
        const Piece& p = c->pieces[i];
        const size_t width = dtypeBytes(type), bytes = p.count * width;
        for (int step = 0; step < c->world(); step++) {
          const int q = (c->rank() + step) % c->world();  // each rank starts elsewhere: they do not all read one peer at once
          const char* src = c->peer(q, i, 0, bytes);
          char* dst = p.whole + ((size_t)q * p.stride + p.start) * width;
          if (src != dst && bytes > 0) kernels().copy(bytes, src, dst, on.pool);
        }
      }
    });
  }};
}

PreparedOp prepareBroadcast(ArgReader& a, int) {
  const CollectivePtr c = readCall(a, BroadcastOp);
  const int64_t bytes = a.size("bytes"), root = a.size("root");
  if (c->group && root >= c->world()) a.fail("root", std::to_string(root), "a rank below " + std::to_string(c->world()));
  const auto span = a.span("data");
  char* data = inArena(a, *c, span, (double)bytes, 1);
  c->offsets.push_back((uint64_t)span.offset);
  c->header.count = bytes;
  mix(c->header.shape, root);
  return {[=](OpContext& on, void*) {
    c->call(on, [&] {
      if (root != c->rank() && bytes > 0) kernels().copy(bytes, c->peer((int)root, 0, 0, bytes), data, on.pool);
    });
  }};
}

PreparedOp prepareBarrier(ArgReader& a, int) {
  const CollectivePtr c = readCall(a, BarrierOp);
  return {[=](OpContext& on, void*) { c->call(on, [] {}); }};
}

}  // namespace shunya
