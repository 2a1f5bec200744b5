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
// whose result or output depends on it, until nothing new is found. With roots
// only what a walk from there can meet is looked at.
func (w *walker) findState(roots []int) {
	im := w.im
	w.memo = map[walkKey]*summary{}
	relevant := func(int) bool { return true }
	if roots != nil {
		met := w.relevant(roots)
		relevant = func(fn int) bool { return met[fn] }
	}
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
	w.near = w.readers(w.d, relevant)
	for i, guard := range w.index.guard {
		if guard && relevant(i) {
			w.near[i] = true
		}
	}
	work := maps.Clone(w.near)
	for range maxRounds {
		for _, fn := range told {
			tells[fn] = true
			for _, c := range w.index.callers.of(fn) {
				if relevant(int(c)) {
					work[int(c)] = true
				}
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
		for _, fn := range slices.Sorted(maps.Keys(work)) {
			f := &im.fns[fn]
			s := w.summary(fn, 0, 0)
			if (s.ret || len(s.outs) > 0) && !tells[fn] && (f.insns <= maxTell || f.cpuid) {
				told = append(told, fn)
			}
		}
		if len(fresh) == 0 && len(told) == 0 {
			break
		}
		work = w.readers(fresh, relevant)
	}
	w.finding, w.store = false, nil
	w.told, w.memo = w.memo, map[walkKey]*summary{}
}

// readers are the functions that read some of d, or take its address.
func (w *walker) readers(d stateSet, relevant func(int) bool) map[int]bool {
	out := map[int]bool{}
	if len(d) == 0 {
		return out
	}
	for i := range w.im.fns {
		if w.im.fns[i].pseudo || !relevant(i) {
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

// relevant are the functions that a walk from roots can meet, those that may
// store what these read, and the small ones that they ask.
func (w *walker) relevant(roots []int) []bool {
	met := make([]bool, len(w.im.fns))
	work := slices.Clone(roots)
	read := map[uint64]bool{}
	for range 3 {
		for len(work) > 0 {
			fn := work[len(work)-1]
			work = work[:len(work)-1]
			if met[fn] {
				continue
			}
			met[fn] = true
			for _, r := range w.index.data.of(fn) {
				if r&refRead != 0 {
					read[uint64(r&refAddr)] = true
				}
			}
			for _, c := range w.index.calls.of(fn) {
				if !met[c] && (w.leads(int(c)) || w.im.fns[c].insns <= maxSmall) {
					work = append(work, int(c))
				}
			}
		}
		for i := range w.im.fns {
			if f := &w.im.fns[i]; met[i] || f.insns > maxSmall && !f.cpuid {
				continue
			}
			for _, r := range w.index.data.of(i) {
				if r&(refTouch|refLea) != 0 && read[uint64(r&refAddr)] {
					work = append(work, i)
					break
				}
			}
		}
	}
	for _, fn := range work {
		met[fn] = true
	}
	return met
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
		im.refer(&r, f, &in, f.addr+uint64(at))
		at += int(in.Len)
	}
	r.tidy()
	return r
}

// reset makes r ready for function i and keeps its memory.
func (r *ref) reset(i int) {
	*r = ref{fn: i, leas: r.leas[:0], reads: r.reads[:0], touch: r.touch[:0], calls: r.calls[:0]}
}

// maxRefs bounds what is kept of one function, so that a hostile file cannot
// make the index larger than itself.
const maxRefs = 1 << 16

// full reports whether r has no room left, after giving up what is twice in it.
func (r *ref) full() bool {
	if len(r.calls) >= maxRefs {
		r.tidy()
	}
	return len(r.calls) >= maxRefs || len(r.reads)+len(r.touch)+len(r.leas) >= maxRefs
}

func (r *ref) tidy() {
	slices.Sort(r.calls)
	r.calls = slices.Compact(r.calls)
}

// branch adds to r a call or jump to an address outside its function.
func (im *image) branch(r *ref, to uint64) {
	if c, name := im.resolve(to); name != "" {
		r.guard = r.guard || im.asks(name)
	} else if c >= 0 {
		r.calls = append(r.calls, c)
	}
}

// refer adds to r what the instruction of f at pc refers to.
func (im *image) refer(r *ref, f *function, in *x86.Inst, pc uint64) {
	if r.full() {
		return
	}
	switch in.Flow {
	case x86.FlowCall, x86.FlowJmp, x86.FlowJcc:
		to := in.Target(pc)
		if to < f.addr || to >= f.end() {
			im.branch(r, to)
		}
		return
	}
	to, rip := in.RIPTarget(pc)
	if !rip {
		return
	}
	if in.Flow != x86.FlowNext {
		if c, name := im.through(to); name != "" {
			r.guard = r.guard || im.asks(name)
		} else if c >= 0 {
			r.calls = append(r.calls, c)
		}
		return
	}
	if s, ok := im.slots.at(to); ok {
		if s.name != "" && im.holds(s.name) {
			r.guard = true
		}
		r.reads = append(r.reads, s.addr)
		return
	}
	writable := im.writable(to)
	if in.Map == 0 && in.Op == 0x8d {
		if writable {
			r.leas = append(r.leas, to)
		}
		return
	}
	if !writable && !im.holdsState(to) {
		return // nothing can change it
	}
	e := in.Effects()
	if e.MemRead {
		r.reads = append(r.reads, to)
	}
	if writable {
		r.touch = append(r.touch, to)
		r.write = r.write || e.MemWrite
	}
}
