package isa

import (
	"maps"
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
	// lookup says that a guard function is looked up by its name.
	lookup bool
	out    bool // calls a guard function that answers through a pointer
}

// maxSmall bounds the functions that are looked at for writing dispatch
// state, in instructions.
const maxSmall = 1500

// maxTell bounds the functions whose result is taken for a CPU test: one that
// is larger does more than to ask, and what it returns would make tests of
// ordinary branches.
const maxTell = 300

// maxRounds bounds how often the state is looked for again with what was found
// before.
const maxRounds = 6

// findState computes the dispatch state of an image: named objects, what a
// function with cpuid touches, and what functions store that depends on it.
// Functions are walked that read the state, and those that call a function
// whose result or output depends on it, until nothing new is found.
func (w *walker) findState() {
	im := w.im
	w.d = stateSet{}
	for _, s := range im.state {
		w.d.add(s.addr, s.size)
	}
	for i := range im.fns {
		if !im.fns[i].cpuid {
			continue
		}
		for _, r := range w.index.data.of(i) {
			if r&refTouch != 0 {
				w.d.add(uint64(r&refAddr), 8)
			}
		}
		if w.index.out[i] {
			for _, r := range w.index.data.of(i) {
				if r&refLea != 0 {
					w.d.add(uint64(r&refAddr), 8)
				}
			}
		}
	}
	w.finding = true
	var fresh stateSet
	w.store = func(addr, size uint64) {
		if !im.writable(addr) {
			return
		}
		for i := range min(size, 4096) {
			if !w.d.has(addr + i) {
				w.d.add(addr+i, 1)
				fresh.add(addr+i, 1)
			}
		}
	}
	tells := map[int]bool{} // functions whose result or output is a CPU test
	var told []int          // those that turned out to be in this round
	for i := range im.fns {
		if im.fns[i].guard || im.fns[i].trusted {
			told = append(told, i)
		}
	}
	w.near = w.readers(w.d)
	for i, guard := range w.index.guard {
		if guard {
			w.near[i] = true
		}
	}
	work := maps.Clone(w.near)
	for range maxRounds {
		for _, fn := range told {
			tells[fn] = true
			for _, c := range w.index.callers.of(fn) {
				work[int(c)] = true
			}
		}
		// What was found of these before may hold no longer, nor what was
		// found of their callers.
		maps.Copy(w.near, work)
		for fn := range maps.Clone(work) {
			for _, c := range w.index.callers.of(fn) {
				if w.near[int(c)] {
					work[int(c)] = true
				}
			}
		}
		maps.DeleteFunc(w.memo, func(k walkKey, _ *summary) bool { return work[k.fn] })
		fresh, told = stateSet{}, nil
		w.passed()
		for _, fn := range slices.Sorted(maps.Keys(work)) {
			f := &im.fns[fn]
			s := w.summary(fn, 0, 0)
			if (s.ret || s.out || len(s.outs) > 0) && !tells[fn] && (f.insns <= maxTell || f.cpuid) {
				told = append(told, fn)
			}
		}
		if len(fresh) == 0 && len(told) == 0 {
			break
		}
		work = w.readers(fresh)
	}
	w.finding, w.store = false, nil
	w.told, w.memo = w.memo, map[walkKey]*summary{}
}

// readers are the functions that read some of d, or take its address.
func (w *walker) readers(d stateSet) map[int]bool {
	out := map[int]bool{}
	if len(d) == 0 {
		return out
	}
	for i := range w.im.fns {
		if w.im.fns[i].pseudo {
			continue
		}
		for _, r := range w.index.data.of(i) {
			if r&refRead != 0 && d.has(uint64(r&refAddr)) {
				out[i] = true
				break
			}
		}
	}
	return out
}

// passed takes what a function passes by address to one that asks the CPU for
// an answer. On x86-64 the walk sees what is stored there.
func (w *walker) passed() {
	if w.im.machine == machineX86 {
		return
	}
	lea := func(r dataRef) bool { return r&refLea != 0 }
	for fn, guard := range w.index.guard {
		if !guard || slices.ContainsFunc(w.index.data.of(fn), lea) {
			continue
		}
		for _, c := range w.index.callers.of(fn) {
			for _, r := range w.index.data.of(int(c)) {
				if lea(r) {
					w.store(uint64(r&refAddr), pointee)
				}
			}
		}
	}
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
		case x86.FlowCall, x86.FlowJmp, x86.FlowJcc:
			to := in.Target(pc)
			if to >= f.addr && to < f.end() {
				continue
			}
			if c, name := im.resolve(to); name != "" {
				r.guard = r.guard || im.asks(name)
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
				r.guard = r.guard || im.asks(name)
			} else if c >= 0 {
				r.calls = append(r.calls, c)
			}
			continue
		}
		if s, ok := im.slots[to]; ok {
			if s.name != "" && im.holds(s.name) {
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
