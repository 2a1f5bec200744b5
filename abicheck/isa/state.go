package isa

import (
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// stateNames are data symbols that hold what the processor can do.
var stateNames = []string{"__cpu_model", "__cpu_features2", "__aarch64_cpu_features", "__aarch64_have_lse_atomics",
	"OPENSSL_armcap_P", "OPENSSL_ia32cap_P", "_rtld_global_ro", "__intel_cpu_feature_indicator", "__intel_cpu_feature_indicator_x"}

func stateName(name string) bool { return slices.Contains(stateNames, name) }

// guardCalls are imported functions whose result is a CPU test. A trailing
// star stands for any rest.
var guardCalls = []string{"getauxval", "__getauxval", "elf_aux_info", "__arm_sme_state", "__aarch64_sme_accessible", "__get_cpuid", "__get_cpuid_max", "__get_cpuid_count", "__x86_get_cpuid_feature_leaf",
	"__x86_get_cpu_features", "__riscv_hwprobe", "sysctlbyname", "cpuinfo_*", "__builtin_cpu_supports",
	"_ZN2at6native18get_cpu_capability*", "_ZN2cv20checkHardwareSupport*"}

func guardCall(name string) bool {
	for _, g := range guardCalls {
		if stem, ok := strings.CutSuffix(g, "*"); ok && strings.HasPrefix(name, stem) || g == name {
			return true
		}
	}
	return false
}

// outGuards are guard functions that answer through a pointer.
var outGuards = []string{"elf_aux_info", "sysctlbyname", "__get_cpuid", "__get_cpuid_count", "__x86_get_cpuid_feature_leaf"}

func outGuard(name string) bool { return slices.Contains(outGuards, name) }

// A stateSet is the set of data bytes that hold the outcome of a CPU test.
type stateSet map[uint64]struct{}

func (d stateSet) add(addr, n uint64) {
	for i := range min(n, 4096) {
		d[addr+i] = struct{}{}
	}
}

func (d stateSet) has(addr uint64) bool { _, ok := d[addr]; return ok }

// ref is what one function does with data and callees.
type ref struct {
	fn    int
	leas  []uint64 // writable data whose address is taken
	reads []uint64 // data that is read
	touch []uint64 // writable data that is read or written
	write bool
	calls []int
	guard bool // cpuid, xgetbv or an imported guard function
	out   bool // calls a guard function that answers through a pointer
}

// maxSmall bounds the functions that are looked at for writing dispatch
// state, in instructions.
const maxSmall = 1500

// findState computes the dispatch state of an image: named objects, what a
// function with cpuid touches, and what functions write from it, to a fixed
// point or four rounds.
func (w *walker) findState() {
	im := w.im
	w.d = stateSet{}
	for _, s := range im.state {
		w.d.add(s.addr, s.size)
	}
	var refs []ref
	byFn := map[int]int{}
	for i := range im.fns {
		f := &im.fns[i]
		if f.pseudo || f.insns > maxSmall && !f.cpuid {
			continue
		}
		r := im.refs(i)
		if f.cpuid {
			for _, a := range r.touch {
				w.d.add(a, 8)
			}
		}
		if r.out {
			for _, a := range r.leas {
				w.d.add(a, 8)
			}
		}
		if r.guard || r.write || len(r.leas) > 0 || len(r.reads) > 0 {
			byFn[i] = len(refs)
			refs = append(refs, r)
		}
	}
	for range 4 {
		before := len(w.d)
		evid := map[int]bool{}
		for i := range refs {
			r := &refs[i]
			if r.guard || slices.ContainsFunc(r.reads, w.d.has) || slices.ContainsFunc(r.leas, w.d.has) {
				evid[r.fn] = true
			}
		}
		w.evid = evid
		w.memo = map[walkKey]*summary{}
		w.plain, w.nearTo = map[int]*links{}, map[nearKey]bool{}
		for i := range refs {
			r := &refs[i]
			near := evid[r.fn]
			var callsTest bool
			for _, c := range r.calls {
				if evid[c] {
					near, callsTest = true, true
				}
			}
			if !near {
				continue
			}
			if callsTest {
				for _, c := range r.calls {
					if j, ok := byFn[c]; ok && evid[c] && refs[j].guard && len(refs[j].leas) == 0 {
						for _, a := range r.leas {
							w.d.add(a, 64)
						}
					}
				}
			}
			if r.write {
				w.store = func(addr, size uint64) {
					if im.writable(addr) {
						w.d.add(addr, size)
					}
				}
				w.summary(r.fn, 0, 0)
				w.store = nil
			}
		}
		if len(w.d) == before {
			break
		}
	}
	// Callers of functions that test are candidates too: their result may be
	// a test. They are known by the calls that a walk sees.
	w.memo = map[walkKey]*summary{}
	w.plain, w.nearTo = map[int]*links{}, map[nearKey]bool{}
}

// refs collects what function i does with data.
func (im *image) refs(i int) ref {
	if im.machine != machineX86 {
		return im.refsA64(i)
	}
	f := &im.fns[i]
	r := ref{fn: i, guard: f.cpuid}
	b := im.code(f)
	var in x86.Inst
	for at := 0; at < len(b); {
		if !in.Decode(b[at:]) {
			at++
			continue
		}
		pc := f.addr + uint64(at)
		at += int(in.Len)
		switch in.Flow {
		case x86.FlowCall, x86.FlowJmp:
			to := in.Target(pc)
			if to >= f.addr && to < f.end() {
				continue
			}
			if c, name := im.resolve(to); name != "" {
				r.guard = r.guard || guardCall(name)
			} else if c >= 0 {
				r.calls = append(r.calls, c)
			}
			continue
		}
		to, rip := in.RIPTarget(pc)
		if !rip {
			continue
		}
		if in.Flow != x86.FlowNext {
			if c, name := im.through(to); name != "" {
				r.guard = r.guard || guardCall(name)
			} else if c >= 0 {
				r.calls = append(r.calls, c)
			}
			continue
		}
		if s, ok := im.slots[to]; ok {
			if s.name != "" && stateName(s.name) {
				r.guard = true
			}
			r.reads = append(r.reads, s.addr)
			continue
		}
		if in.Map == 0 && in.Op == 0x8d {
			if im.writable(to) {
				r.leas = append(r.leas, to)
			}
			continue
		}
		e := in.Effects()
		if e.MemRead {
			r.reads = append(r.reads, to)
		}
		if im.writable(to) {
			r.touch = append(r.touch, to)
			r.write = r.write || e.MemWrite
		}
	}
	slices.Sort(r.calls)
	r.calls = slices.Compact(r.calls)
	return r
}
