// Rows of a table by id, and the sum of gradients back into those rows.
#include "declarations.h"
#include "split.h"

namespace shunya::SHUNYA_ISA {

namespace {

// Rows of dy in the order of their ids, equal ids in row order: rows[first[t]] .. rows[first[t + 1] - 1] belong to token t.
struct RowsByToken { int64_t* first; int32_t* rows; };

RowsByToken sortRows(int64_t rows, int64_t vocabulary, const int32_t* ids, void* scratch) {
  // Counts stand two places up, so that the running total for token t + 1 can serve as its cursor and end as its bound.
  int64_t* count = (int64_t*)scratch;
  const RowsByToken sorted{count, (int32_t*)(count + vocabulary + 2)};
  memset(count, 0, (vocabulary + 2) * sizeof(int64_t));
  for (int64_t r = 0; r < rows; r++) count[ids[r] + 2]++;
  for (int64_t t = 2; t < vocabulary + 2; t++) count[t] += count[t - 1];
  for (int64_t r = 0; r < rows; r++) sorted.rows[count[ids[r] + 1]++] = (int32_t)r;
  return sorted;
}

// One token's row, a strip of `strip` vectors at a time so that the sums stay in registers.
template <DType T>
void addRows(int64_t cols, const void* dy, const int32_t* rows, int64_t count, void* out, bool accumulate) {
  constexpr int strip = 4;
  int64_t c = 0;
  for (; c + strip * VL <= cols; c += strip * VL) {
    vf total[strip];
    for (int j = 0; j < strip; j++) total[j] = accumulate ? load<T>(out, c + j * VL) : zero();
    for (int64_t k = 0; k < count; k++)
      for (int j = 0; j < strip; j++) total[j] += load<T>(dy, rows[k] * cols + c + j * VL);
    for (int j = 0; j < strip; j++) store<T>(out, c + j * VL, total[j]);
  }
  eachVector(c, cols, [=](int64_t i, auto extent) {
    vf total = accumulate ? load<T>(out, i, extent) : zero();
    for (int64_t k = 0; k < count; k++) total += load<T>(dy, rows[k] * cols + i, extent);
    store<T>(out, i, total, extent);
  });
}

}  // namespace

void embedding(int64_t rows, int64_t cols, int64_t, DType type, const int32_t* ids, const void* table, void* out, bool accumulate,
               Pool& pool) {
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, rows, rowsPerTask(cols), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) {
        const Storage<T>* from = (const Storage<T>*)table + ids[r] * cols;
        Storage<T>* to = (Storage<T>*)out + r * cols;
        if (!accumulate) {
          memcpy(to, from, cols * sizeof *to);
          continue;
        }
        eachVector(0, cols, [=](int64_t c, auto extent) {
          store<T>(to, c, load<T>(to, c, extent) + load<T>(from, c, extent), extent);
        });
      }
    });
  });
}

size_t embeddingBackwardScratch(int64_t rows, int64_t vocabulary) {
  return (size_t)(vocabulary + 2) * sizeof(int64_t) + (size_t)rows * sizeof(int32_t);
}

void embeddingBackward(int64_t rows, int64_t cols, int64_t vocabulary, DType type, const int32_t* ids, const void* dy,
                       void* dtable, bool accumulate, Pool& pool, void* scratch) {
  const RowsByToken sorted = sortRows(rows, vocabulary, ids, scratch);
  withDType(type, [&](auto tag) {
    constexpr DType T = decltype(tag)::value;
    overPieces(pool, vocabulary, rowsPerTask(cols), [=](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; t++) {
        const int64_t first = sorted.first[t], count = sorted.first[t + 1] - first;
        Storage<T>* to = (Storage<T>*)dtable + t * cols;
        if (count > 0) addRows<T>(cols, dy, sorted.rows + first, count, to, accumulate);
        else if (!accumulate) memset(to, 0, cols * sizeof *to);
      }
    });
  });
}

}  // namespace shunya::SHUNYA_ISA
