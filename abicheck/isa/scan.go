package isa

import (
	"context"
	"debug/elf"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// chunk is how many functions a worker takes at a time.
const chunk = 256

// scan decodes every function and fills in its traits.
func (im *image) scan(ctx context.Context, t *target, isaUnit bool) error {
	return im.eachChunk(ctx, func(k, lo, hi int) {
		for i := lo; i < hi; i++ {
			im.scanOne(&im.fns[i], t, isaUnit, nil)
		}
	})
}

// scanIndexed is scan that makes the index of calls and data in the same pass.
func (im *image) scanIndexed(ctx context.Context, t *target, isaUnit bool) error {
	if im.machine != elf.EM_X86_64 {
		return im.scan(ctx, t, isaUnit) // newIndex follows when it is needed
	}
	parts := make([]indexPart, (len(im.fns)+chunk-1)/chunk)
	err := im.eachChunk(ctx, func(k, lo, hi int) {
		var r ref
		for i := lo; i < hi; i++ {
			r.reset(i)
			im.scanOne(&im.fns[i], t, isaUnit, &r)
			r.guard = r.guard || im.fns[i].cpuid
			parts[k].add(im, &r)
		}
	})
	if err == nil {
		im.index = assemble(len(im.fns), parts)
	}
	return err
}

// eachChunk calls do for all functions, a run of them at a time, on all
// processors.
func (im *image) eachChunk(ctx context.Context, do func(k, lo, hi int)) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for {
				k := int(next.Add(1)) - 1
				if k*chunk >= len(im.fns) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				do(k, k*chunk, min((k+1)*chunk, len(im.fns)))
			}
		})
	}
	return g.Wait()
}

// scanOne fills in the traits of f, and r with what it refers to unless that
// is nil.
func (im *image) scanOne(f *function, t *target, isaUnit bool, r *ref) {
	if im.machine == elf.EM_AARCH64 {
		im.scanA64(f, t, isaUnit)
		return
	}
	seg := &im.text[f.seg]
	rest := seg.bytes[f.addr-seg.addr:] // what follows f is read, but does not count
	b := rest[:f.size]
	mask := t.above(^uint64(0), isaUnit)
	tables := len(im.literals) > 0
	var in x86.Inst
	for at := 0; at < len(b); {
		if tables && im.isData(f.addr+uint64(at)) {
			at++ // clang keeps jump tables of macOS among the code
			continue
		}
		if at+16 <= len(rest) {
			n, what, rel, feat := x86.Skim((*[16]byte)(rest[at:]))
			if n > 0 && at+n <= len(b) && (what < x86.Branch || r == nil || !im.remarkable(r, f, what, f.addr+uint64(at+n)+uint64(int64(rel)))) {
				f.insns++
				if a := uint64(feat) & mask; a != 0 {
					if f.feat == 0 {
						f.first = f.addr + uint64(at)
					}
					f.feat |= a
				}
				f.vex = f.vex || what&x86.Vector != 0
				f.sse = f.sse || what&x86.Baseline != 0
				at += n
				continue
			}
		}
		if !in.Decode(b[at:]) {
			f.bad = true
			at++
			continue
		}
		f.insns++
		if in.Feat != 0 {
			if a := uint64(in.Feat) & mask; a != 0 {
				if f.feat == 0 {
					f.first = f.addr + uint64(at)
				}
				f.feat |= a
			}
		}
		switch in.Enc {
		case x86.EncVEX, x86.EncEVEX:
			f.vex = true
		case x86.EncLegacy:
			if in.Map == 1 {
				switch op := in.Op; {
				case op == 0xa2, op == 0x01 && in.ModRM == 0xd0:
					f.cpuid = true
				case x86.VectorOp(op):
					f.sse = true
				}
			}
		}
		if r != nil && (in.Flow != x86.FlowNext || in.Flags&x86.IsRIP != 0) {
			im.refer(r, f, &in, f.addr+uint64(at))
		}
		at += int(in.Len)
	}
	if f.bad && f.pseudo {
		// A gap that does not decode is a table among the code, whatever
		// features its bytes seem to need.
		f.feat = 0
	}
}

// remarkable takes note of a branch of f to an address, and reports whether an
// operand there has to be looked at.
func (im *image) remarkable(r *ref, f *function, what x86.What, to uint64) bool {
	if what&x86.Relative != 0 {
		return to-im.live.addr < im.live.size || im.live.size == 0
	}
	if (to < f.addr || to >= f.end()) && !r.full() {
		im.branch(r, to)
	}
	return false
}
