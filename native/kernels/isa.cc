// Chooses an instruction set when the program starts. Compiled once, for the plainest processor; the build says which tables
// exist: SHUNYA_HAVE_X86 beside portable those of x86-64, SHUNYA_NO_AVX512BF16 all but the last where the compiler is older.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "kernels.h"

#if defined(SHUNYA_HAVE_X86)
#include <cpuid.h>
#endif

namespace shunya {

namespace portable { extern const Kernels table; }

#if defined(SHUNYA_HAVE_X86)
namespace avx2 { extern const Kernels table; }
namespace avx512 { extern const Kernels table; }
#if !defined(SHUNYA_NO_AVX512BF16)
namespace avx512bf16 { extern const Kernels table; }
#endif
#endif

namespace {

struct Available {
  const Kernels* tables[4];
  int count = 0;
  void add(const Kernels& table) { tables[count++] = &table; }
};

#if defined(SHUNYA_HAVE_X86)
// Which register files the operating system saves on a context switch (XCR0); a processor's feature bit alone is not enough.
uint64_t savedState() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

void addX86(Available& found) {
  const uint64_t ymm = 0x06, zmm = 0xe6, saved = savedState();
  uint32_t a = 0, b, c1 = 0, d, b7 = 0, c, a71 = 0;
  __get_cpuid(1, &a, &b, &c1, &d);
  __get_cpuid_count(7, 0, &a, &b7, &c, &d);
  if (a >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
  const bool isAvx2 = (saved & ymm) == ymm && (b7 & bit_AVX2) && (c1 & bit_FMA) && (c1 & bit_F16C);
  const uint32_t foundation = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
  const bool isAvx512 = isAvx2 && (saved & zmm) == zmm && (b7 & foundation) == foundation;
#if !defined(SHUNYA_NO_AVX512BF16)
  const uint32_t bf16Bit = 1u << 5;  // leaf 7.1 eax; cpuid.h of older compilers has no name for it
  if (isAvx512 && (a71 & bf16Bit)) found.add(avx512bf16::table);
#endif
  if (isAvx512) found.add(avx512::table);
  if (isAvx2) found.add(avx2::table);
}
#endif

const Available& available() {
  static const Available found = [] {
    Available list;
#if defined(SHUNYA_HAVE_X86)
    addX86(list);
#endif
    list.add(portable::table);
    return list;
  }();
  return found;
}

std::atomic<const Kernels*> chosen{nullptr};

}  // namespace

const Kernels& kernels() {
  const Kernels* table = chosen.load(std::memory_order_acquire);
  return table ? *table : *available().tables[0];
}

bool selectKernels(const char* name) {
  const Available& found = available();
  for (int i = 0; i < found.count; i++) {
    if (std::strcmp(found.tables[i]->name, name) != 0) continue;
    chosen.store(found.tables[i], std::memory_order_release);
    return true;
  }
  return false;
}

const Kernels* const* availableKernels(int* n) {
  *n = available().count;
  return available().tables;
}

}  // namespace shunya
