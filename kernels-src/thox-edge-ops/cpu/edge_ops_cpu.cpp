// Divides each operator's work into units and hands them to the threads.
#include "edge_ops_cpu.h"

#include "select.h"

namespace thox_edge_ops_cpu {
namespace {

// A part of a call is worth a thread of its own from about this many bytes of
// tensor data, or for the gates from this many exponentials: waking a team and
// waiting for it costs one to two microseconds.
constexpr int64_t kElementsPerPart = 32768;
constexpr int64_t kExponentialsPerPart = 8192;

int64_t grain(int64_t elements_per_part, int64_t elements_per_unit) {
  return (elements_per_part + elements_per_unit - 1) / elements_per_unit;
}

// One call: the primitive and its arguments.
template <class Args>
struct Call {
  void (*run)(const Args&, int64_t, int64_t);
  const Args& args;

  static void body(const void* ctx, int64_t begin, int64_t end) {
    const Call& call = *static_cast<const Call*>(ctx);
    call.run(call.args, begin, end);
  }
};

template <class Args>
void for_units(void (*run)(const Args&, int64_t, int64_t), const Args& args, int64_t units, int64_t grain,
               ParallelFor parallel) {
  if (units <= grain) return run(args, 0, units);
  const Call<Args> call{run, args};
  parallel(units, grain, Call<Args>::body, &call);
}

int64_t heads(const RotaryArgs& args) { return args.tokens * (int64_t(args.q_heads) + args.k_heads); }

}  // namespace

void rms_norm(const NormArgs& args, DType dtype, ParallelFor parallel) {
  if (args.rows == 0 || args.cols == 0) return;
  const Unit& u = unit();
  for_units(args.residual ? u.add_norm[dtype] : u.norm[dtype], args, args.rows,
            grain(kElementsPerPart, args.cols), parallel);
}

void act_and_mul(const GateArgs& args, Act act, DType dtype, ParallelFor parallel) {
  if (args.rows == 0 || args.cols == 0) return;
  const int64_t blocks = (args.cols + kGateBlock - 1) / kGateBlock;
  const int64_t unit_cols = args.cols < kGateBlock ? args.cols : kGateBlock;
  for_units(unit().gate[act][dtype], args, args.rows * blocks, grain(kExponentialsPerPart, unit_cols), parallel);
}

void rotary_embedding(const RotaryArgs& args, DType dtype, ParallelFor parallel) {
  if (heads(args) == 0 || args.rotary_dim == 0) return;
  for_units(unit().rotary[args.cache_is_float32][args.interleaved][dtype], args, heads(args),
            grain(kElementsPerPart, args.rotary_dim), parallel);
}

void qk_norm_rope(const PrologueArgs& args, DType dtype, ParallelFor parallel) {
  const RotaryArgs& r = args.rotary;
  if (heads(r) == 0 || r.head_dim == 0) return;
  for_units(unit().prologue[r.cache_is_float32][r.interleaved][dtype], args, heads(r),
            grain(kElementsPerPart / 2, r.head_dim), parallel);
}

}  // namespace thox_edge_ops_cpu
