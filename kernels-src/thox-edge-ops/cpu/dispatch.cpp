// Selects a unit, once per process.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "unit.h"
#include "select.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace thox_edge_ops_cpu {
namespace {

constexpr char kVariable[] = "THOX_EDGE_OPS_CPU_ISA";

#if defined(__x86_64__)

struct Cpu {
  uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_1_eax = 0;
  uint64_t xcr0 = 0;  // the register state that the operating system keeps
};

Cpu read_cpu() {
  Cpu cpu;
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) cpu.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    cpu.leaf7_ebx = b;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu.leaf7_1_eax = a;
  }
  if (cpu.leaf1_ecx & bit_OSXSAVE) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    cpu.xcr0 = uint64_t(high) << 32 | low;
  }
  return cpu;
}

constexpr bool has(uint64_t word, uint64_t bits) { return (word & bits) == bits; }

// Everything that the unit's flags let the compiler use, and what those flags
// imply: -mavx2 stands for SSE3 to SSE4.2 and POPCNT too.
bool has_avx2(const Cpu& cpu) {
  constexpr uint32_t leaf1 = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_XSAVE |
                             bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
  constexpr uint64_t ymm_state = 0x6;
  return has(cpu.leaf1_ecx, leaf1) && has(cpu.leaf7_ebx, bit_AVX2) && has(cpu.xcr0, ymm_state);
}

bool has_avx512(const Cpu& cpu) {
  constexpr uint32_t leaf7 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  constexpr uint64_t zmm_state = 0xe6;
  return has_avx2(cpu) && has(cpu.leaf7_ebx, leaf7) && has(cpu.xcr0, zmm_state);
}

bool has_avx512_bf16(const Cpu& cpu) {
  return has_avx512(cpu) && has(cpu.leaf7_1_eax, 1u << 5);
}

int find_units(const Unit** units) {
  const Cpu cpu = read_cpu();
  int n = 0;
  units[n++] = thox_edge_ops_unit_baseline();
  if (has_avx2(cpu)) units[n++] = thox_edge_ops_unit_avx2();
  if (has_avx512(cpu)) units[n++] = thox_edge_ops_unit_avx512();
  if (has_avx512_bf16(cpu)) units[n++] = thox_edge_ops_unit_avx512_bf16();
  return n;
}

#else

int find_units(const Unit** units) {
  int n = 0;
  units[n++] = thox_edge_ops_unit_baseline();
#if defined(__linux__)
  // What -march=armv8.2-a+bf16 lets the compiler use beyond ARMv8.0.
  constexpr unsigned long crc32 = 1ul << 7, atomics = 1ul << 8, asimdrdm = 1ul << 12, dcpop = 1ul << 16;
  constexpr unsigned long needed = crc32 | atomics | asimdrdm | dcpop, bf16 = 1ul << 14;
  if ((getauxval(AT_HWCAP) & needed) == needed && (getauxval(AT_HWCAP2) & bf16)) {
    units[n++] = thox_edge_ops_unit_neon_bf16();
  }
#endif
  return n;
}

#endif

// What this host offers, slowest first, and what was selected. Filled in
// place by the first thread, before `state` says so.
constexpr int kMaxUnits = 8;
const Unit* units[kMaxUnits];
char choices[128];
char error[256];
const Unit* selected = nullptr;

enum State : int { kNew, kBusy, kReady };
std::atomic<int> state{kNew};

// aarch64 calls its baseline by the name of what it uses.
bool same_name(const char* wanted, const Unit* unit) {
#if defined(__aarch64__)
  if (strcmp(wanted, "neon") == 0) wanted = "baseline";
#endif
  return strcmp(wanted, unit->name) == 0;
}

void select() {
  const int n = find_units(units);
  for (int i = 0; i < n; ++i) {
    if (i > 0) strcat(choices, ", ");
    strcat(choices, units[i]->name);
#if defined(__aarch64__)
    if (i == 0) strcat(choices, ", neon");
#endif
  }
  const char* const wanted = getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0') {
    selected = units[n - 1];
    return;
  }
  for (int i = 0; i < n; ++i) {
    if (same_name(wanted, units[i])) selected = units[i];
  }
  if (selected == nullptr) {
    snprintf(error, sizeof(error), "%s is \"%.64s\", but this host offers: %s; unset it for the fastest",
             kVariable, wanted, choices);
  }
}

void ensure_selected() {
  if (state.load(std::memory_order_acquire) == kReady) return;
  int expected = kNew;
  if (state.compare_exchange_strong(expected, kBusy)) {
    select();
    state.store(kReady, std::memory_order_release);
    return;
  }
  while (state.load(std::memory_order_acquire) != kReady) {
  }
}

}  // namespace

const char* select_unit() {
  ensure_selected();
  return selected ? nullptr : error;
}

const Unit& unit() { return *selected; }

const char* unit_name() {
  ensure_selected();
  return selected ? selected->name : "none";
}

const char* unit_choices() {
  ensure_selected();
  return choices;
}

}  // namespace thox_edge_ops_cpu
