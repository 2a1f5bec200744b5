package isa

import (
	"context"
	"debug/elf"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// scan decodes every function and fills in its traits.
func (im *image) scan(ctx context.Context, t *target, isaUnit bool) error {
	var next atomic.Int64
	const chunk = 256
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for {
				lo := int(next.Add(chunk)) - chunk
				if lo >= len(im.fns) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				for i := lo; i < min(lo+chunk, len(im.fns)); i++ {
					im.scanOne(&im.fns[i], t, isaUnit)
				}
			}
		})
	}
	return g.Wait()
}

func (im *image) scanOne(f *function, t *target, isaUnit bool) {
	if im.machine == elf.EM_AARCH64 {
		im.scanA64(f, t, isaUnit)
		return
	}
	b := im.code(f)
	var in x86.Inst
	for at := 0; at < len(b); {
		if im.isData(f.addr + uint64(at)) {
			at++ // clang keeps jump tables of macOS among the code
			continue
		}
		if !in.Decode(b[at:]) {
			f.bad = true
			at++
			continue
		}
		f.insns++
		if in.Feat != 0 {
			if a := t.above(uint64(in.Feat), isaUnit); a != 0 {
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
				case op >= 0x10 && op <= 0x17, op >= 0x28 && op <= 0x2f, op >= 0x51 && op <= 0x7f && op != 0x77, op >= 0xd0 && op != 0xff:
					f.sse = true
				}
			}
		}
		at += int(in.Len)
	}
	if f.bad && f.pseudo {
		// A gap that does not decode is a table among the code, whatever
		// features its bytes seem to need.
		f.feat = 0
	}
}
