// Matrix product: blocking, packing and the work split around the microkernel of matmul.h.
//
// Loops, outermost first: column blocks (packed B stays in the last-level cache), depth blocks, row blocks (packed A stays in
// the second-level cache), tiles. How the depth is cut depends on k and the dtype alone and every element of C belongs to one
// task, so neither the number of workers nor the shape of the rest changes a bit of an element's sum.
#include "declarations.h"
#include "matmul_row.h"

namespace shunya::SHUNYA_ISA {
namespace {

constexpr int64_t maxDepthWords = 512;      // one panel of B then fills a first-level cache
constexpr int64_t maxColBlock = 3072;       // 6 MiB of packed B
constexpr int64_t fewRows = 64;             // so few use packed B only once or twice: better to keep less of it, nearer
constexpr int64_t fewRowsColBlock = 384;    // for each worker
constexpr int64_t packedRowBytes = 480 << 10;  // of A; the second-level cache also sees panels of B and tiles of C
constexpr int64_t smallProduct = 1 << 19;   // below this many multiplications waking workers costs more than it saves

struct Blocking {
  int64_t depthBlock, depthBlocks;  // elements
  int64_t colBlock;                 // columns, a multiple of tileCols
  int64_t rowTiles, rowBlocks;      // tiles in all, and blocks they are dealt to
  int64_t colTasks;                 // tasks that share a row block when there are few
  int workers;
  bool partialSums;                 // a 16-bit result of several depth blocks keeps fp32 sums aside

  int64_t blockWords(DType type) const { return ceilDiv(depthBlock, wordDepthOf(type)); }
  int64_t firstTile(int64_t rowBlock) const { return rowBlock * rowTiles / rowBlocks; }
  int64_t tilesPerBlock() const { return ceilDiv(rowTiles, rowBlocks); }
};

Blocking planBlocks(const MatmulArgs& g, int workers) {
  Blocking p;
  const int64_t maxDepth = maxDepthWords * wordDepthOf(g.a.dtype);
  p.depthBlocks = std::max<int64_t>(1, ceilDiv(g.k, maxDepth));
  p.depthBlock = roundUp(ceilDiv(g.k, p.depthBlocks), 4);
  const int64_t maxCols = g.m <= fewRows ? std::min(maxColBlock, fewRowsColBlock * workers) : maxColBlock;
  p.colBlock = roundUp(ceilDiv(g.n, ceilDiv(g.n, maxCols)), tileCols);
  p.workers = (double)g.m * g.n * g.k < smallProduct ? 1 : workers;
  p.rowTiles = ceilDiv(g.m, tileRows);
  const int64_t tileBytes = tileRows * std::max<int64_t>(1, p.blockWords(g.a.dtype)) * 4;
  const int64_t blocks = ceilDiv(p.rowTiles, std::max<int64_t>(1, packedRowBytes / tileBytes));
  p.rowBlocks = std::min(p.rowTiles, roundUp(blocks, p.workers));
  p.colTasks = std::min(p.colBlock / tileCols, ceilDiv(p.workers, p.rowBlocks));
  p.partialSums = g.cType != DType::F32 && p.depthBlocks > 1;
  return p;
}

// Where the parts of the scratch lie. All are multiples of a cache line.
struct Layout {
  int64_t colBytes, rowBytes, sumBytes;
  Layout(const MatmulArgs& g, const Blocking& p)
      : colBytes(p.colBlock * p.blockWords(g.a.dtype) * 4),
        rowBytes(roundUp(p.tilesPerBlock() * tileRows * p.blockWords(g.a.dtype) * 4, 64)),
        sumBytes(p.partialSums ? p.rowTiles * tileRows * p.colBlock * 4 : 0) {}
  uint32_t* cols(char* scratch) const { return (uint32_t*)scratch; }
  uint32_t* rows(char* scratch, int worker) const { return (uint32_t*)(scratch + colBytes + worker * rowBytes); }
  float* sums(char* scratch, int workers) const { return (float*)(scratch + colBytes + workers * rowBytes); }
  size_t bytes(int workers) const { return colBytes + workers * rowBytes + sumBytes; }
};

// What stands between a finished fp32 tile and C: the old C or the bias, the activation, one rounding.
void finishTile(const MatmulArgs& g, int64_t row, int64_t col, int64_t rows, int64_t cols, const float* tile, int64_t ldTile) {
  for (int64_t y = 0; y < rows; y++) {
    const int64_t start = (row + y) * g.ldc + col;
    eachVector(0, cols, [&](int64_t x, auto extent) {
      finishColumns(g, start + x, col + x, load<DType::F32>(tile + y * ldTile, x, extent), extent);
    });
  }
}

// One product: the arguments, their blocking, and the loops. `T` is the operands' dtype.
template <DType T> struct Product {
  const MatmulArgs& g;
  const Blocking p;
  const Layout layout;
  char* scratch;

  struct DepthBlock { int64_t start, depth, words; bool first, last; };

  template <class Body> void split(int64_t tasks, Pool& pool, Body&& body) const {
    if (p.workers > 1 && tasks > 1) return pool.run(tasks, body);
    for (int64_t task = 0; task < tasks; task++) body(task, 0);
  }

  void run(Pool& pool) const {
    for (int64_t col = 0; col < g.n; col += p.colBlock) {
      const int64_t cols = std::min(p.colBlock, g.n - col), panels = ceilDiv(cols, tileCols);
      for (int64_t d = 0; d < p.depthBlocks; d++) {
        const int64_t start = d * p.depthBlock, depth = std::clamp<int64_t>(g.k - start, 0, p.depthBlock);
        const DepthBlock block = {start, depth, ceilDiv(depth, wordDepth<T>), d == 0, d == p.depthBlocks - 1};
        const int64_t packTasks = std::min<int64_t>(panels, 4 * p.workers);
        split(packTasks, pool, [&](int64_t task, int) {
          packCols(block, col, task * panels / packTasks, (task + 1) * panels / packTasks);
        });
        split(p.rowBlocks * p.colTasks, pool, [&](int64_t task, int worker) {
          const int64_t part = task % p.colTasks;
          multiplyRows(block, task / p.colTasks, col, part * panels / p.colTasks, (part + 1) * panels / p.colTasks, worker);
        });
      }
    }
  }

  void packCols(const DepthBlock& block, int64_t col, int64_t panelBegin, int64_t panelEnd) const {
    for (int64_t panel = panelBegin; panel < panelEnd; panel++)
      packPanel<tileCols, T>(g.b, col + panel * tileCols, g.n, block.start, block.depth,
                             layout.cols(scratch) + panel * tileCols * block.words);
  }

  void multiplyRows(const DepthBlock& block, int64_t rowBlock, int64_t col, int64_t panelBegin, int64_t panelEnd,
                    int worker) const {
    const int64_t tileBegin = p.firstTile(rowBlock), tileEnd = p.firstTile(rowBlock + 1);
    uint32_t* packedRows = layout.rows(scratch, worker);
    for (int64_t tile = tileBegin; tile < tileEnd; tile++)
      packPanel<tileRows, T>(g.a, tile * tileRows, g.m, block.start, block.depth,
                             packedRows + (tile - tileBegin) * tileRows * block.words);
    for (int64_t panel = panelBegin; panel < panelEnd; panel++) {
      const uint32_t* packedCols = layout.cols(scratch) + panel * tileCols * block.words;
      for (int64_t tile = tileBegin; tile < tileEnd; tile++)
        multiplyOne(block, tile * tileRows, col, panel * tileCols, packedRows + (tile - tileBegin) * tileRows * block.words,
                    packedCols);
    }
  }

  // One tile at (row, colBlockStart + x). The fp32 sum grows in C itself where it can, else aside, else on the stack.
  void multiplyOne(const DepthBlock& block, int64_t row, int64_t colBlockStart, int64_t x, const uint32_t* a,
                   const uint32_t* b) const {
    constexpr bool pairs = wordDepth<T> == 2;
    const int64_t col = colBlockStart + x, rows = std::min<int64_t>(tileRows, g.m - row), cols = std::min<int64_t>(tileCols, g.n - col);
    const bool whole = rows == tileRows && cols == tileCols;
    const bool plain = !g.bias && !g.preActivation && g.activation == Activation::None;
    float* inPlace = g.cType == DType::F32 ? (float*)g.c + row * g.ldc + col : nullptr;
    if (p.partialSums) {
      float* sums = layout.sums(scratch, p.workers) + row * p.colBlock + x;
      multiplyTile<tileRows, tileVectors, pairs>(block.words, a, b, sums, p.colBlock, !block.first);
      if (block.last) finishTile(g, row, col, rows, cols, sums, p.colBlock);
      return;
    }
    if (inPlace && whole && (plain || !block.last)) {
      const bool add = g.accumulate || !block.first;
      return multiplyTile<tileRows, tileVectors, pairs>(block.words, a, b, inPlace, g.ldc, add);
    }
    alignas(64) float tile[tileRows * tileCols];
    multiplyTile<tileRows, tileVectors, pairs>(block.words, a, b, tile, tileCols, false);
    MatmulArgs step = g;
    step.accumulate = g.accumulate || !block.first;
    if (!block.last) { step.bias = nullptr; step.preActivation = nullptr; step.activation = Activation::None; }
    finishTile(step, row, col, rows, cols, tile, tileCols);
  }
};

template <DType T> void multiplyRow(const MatmulArgs& g, const Blocking& p, Pool& pool, void* scratch) {
  RowProduct<T>{g, p.depthBlock, (uint32_t*)scratch}.run(p.workers, [&](int64_t tasks, auto&& body) {
    if (p.workers > 1 && tasks > 1) return pool.run(tasks, [&](int64_t task, int) { body(task); });
    for (int64_t task = 0; task < tasks; task++) body(task);
  });
}

template <DType T> void multiply(const MatmulArgs& g, const Blocking& p, Pool& pool, void* scratch) {
  if (g.m == 1) return multiplyRow<T>(g, p, pool, scratch);
  Product<T>{g, p, Layout(g, p), (char*)scratch}.run(pool);
}

}  // namespace

size_t matmulScratch(const MatmulArgs& g, int workers) {
  if (g.m == 0 || g.n == 0) return 0;
  if (g.m == 1) return roundUp(ceilDiv(g.k, wordDepthOf(g.a.dtype)), VL) * 4;
  const Blocking p = planBlocks(g, workers);
  return Layout(g, p).bytes(p.workers);
}

void matmul(const MatmulArgs& g, Pool& pool, void* scratch) {
  if (g.m == 0 || g.n == 0) return;
  const Blocking p = planBlocks(g, pool.workers());
  withDType(g.a.dtype, [&](auto tag) { multiply<decltype(tag)::value>(g, p, pool, scratch); });
}

}  // namespace shunya::SHUNYA_ISA
