package facts_test

import (
	"bytes"
	"debug/macho"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/facts"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile/machotest"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

func TestMachO(t *testing.T) {
	build := machotest.Command{Cmd: 0x32, Body: machotest.Words(1, 14<<16, 15<<16, 0)}
	newer := machotest.Command{Cmd: 0x32, Body: machotest.Words(1, 15<<16|1<<8, 15<<16, 0)}
	phone := machotest.Command{Cmd: 0x32, Body: machotest.Words(2, 14<<16, 15<<16, 0)}
	older := machotest.Command{Cmd: 0x24, Body: machotest.Words(10<<16|15<<8, 11<<16)}
	signed := machotest.Signature()
	system := machotest.Named(0xc, "/usr/lib/libSystem.B.dylib", 2, 0, 0)
	initSym := machofile.Symbol{Name: "_PyInit__k", Type: 0x0f, Sect: 1, Value: 16}
	weak := machofile.Symbol{Name: "__ZNSt1fEv", Type: 0x0f, Sect: 1, Desc: 0x80, Value: 32}
	hidden := weak
	hidden.Type |= 0x10
	python := machofile.Symbol{Name: "_PyType_GetName", Type: 1, Desc: 0xfe00}
	c10 := machofile.Symbol{Name: "__ZTIN3c105ErrorE", Type: 1, Desc: 0xfe00}
	v210 := manifests.MustVersion("2.10")
	type cmds = []machotest.Command
	type syms = []machofile.Symbol
	tests := []struct {
		name string
		cpu  macho.Cpu
		cmds cmds
		syms syms
		got  []string
	}{
		{"clean", macho.CpuArm64, cmds{build, signed, system}, syms{initSym, hidden}, nil},
		{"too new", macho.CpuArm64, cmds{newer, signed}, syms{initSym}, []string{"error MACOS-MINOS"}},
		{"old command", macho.CpuAmd64, cmds{older}, syms{initSym}, nil},
		{"no minimum", macho.CpuAmd64, nil, syms{initSym}, []string{"error MACOS-MINOS"}},
		{"for a phone", macho.CpuArm64, cmds{phone, signed}, syms{initSym}, []string{"error MACOS-MINOS"}},
		{"unsigned", macho.CpuArm64, cmds{build}, syms{initSym}, []string{"error MACOS-SIGNATURE"}},
		{"rpath", macho.CpuArm64, cmds{build, signed, machotest.Named(0x8000001c, "/Users/me/lib")}, syms{initSym}, []string{"error MACOS-RPATH"}},
		{"absolute library", macho.CpuArm64, cmds{build, signed, machotest.Named(0xc, "/opt/homebrew/lib/libomp.dylib", 2, 0, 0)}, syms{initSym}, []string{"error MACOS-RPATH"}},
		{"weak export", macho.CpuArm64, cmds{build, signed}, syms{initSym, weak}, []string{"warning MACOS-WEAK"}},
		{"newer Python", macho.CpuArm64, cmds{build, signed}, syms{initSym, python}, []string{"error ABI3"}},
		{"unstable torch", macho.CpuArm64, cmds{build, signed}, syms{initSym, c10}, []string{"error TORCH-STABLE"}},
		{"no init function", macho.CpuArm64, cmds{build, signed}, nil, []string{"note PYINIT"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := machotest.Dylib(tt.cpu, tt.cmds, tt.syms...)
			f, err := machofile.New(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			s := &rule.Subject{File: "_k.abi3.so", Name: "_k.abi3.so", MachO: f, Data: bytes.NewReader(b), Size: int64(len(b)),
				Want: rule.Want{MacOS: manifests.MustVersion("15.0"), PythonABI: manifests.MustVersion("3.9"), StableABI: &v210}}
			var got []string
			for _, p := range facts.Passes() {
				found, err := p.Run(t.Context(), s, &rule.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range found {
					got = append(got, fmt.Sprintf("%v %s", f.Severity, f.ID))
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.got, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
