package compile

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/matrix"
)

// BenchmarkNoop40 plans and runs 40 variants of which everything is cached:
// five torch releases, four computes, two architectures.
func BenchmarkNoop40(b *testing.B) {
	k := newBench(b, b.TempDir())
	var names []string
	for _, torch := range []string{"211", "212", "213", "214", "215"} {
		for _, compute := range []string{"cpu", "cu126", "cu130", "cu132"} {
			for _, arch := range []string{"x86_64", "aarch64"} {
				names = append(names, fmt.Sprintf("torch%s-cxx11-%s-%s-linux", torch, compute, arch))
			}
		}
	}
	index := filepath.Join(b.TempDir(), "index.json")
	once := func(vs []matrix.Variant) *Result {
		x := source.OpenIndex(index)
		p, err := NewPlan(Config{Kernel: k.kernel, Variants: vs, Tools: fakeTools, OutDir: k.out, Builder: "thoxbuild test", Index: x})
		if err != nil {
			b.Fatal(err)
		}
		res, err := p.Run(b.Context(), RunOptions{Executor: k.exec, Cache: k.cache})
		if err != nil {
			b.Fatal(err)
		}
		if err := x.Save(); err != nil {
			b.Fatal(err)
		}
		return res
	}
	vs := k.variants(names...)
	once(vs)
	b.ReportAllocs()
	for b.Loop() {
		if res := once(vs); res.Counts.Ran != 0 {
			b.Fatalf("%+v", res.Counts)
		}
	}
}
