package abicheck_test

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// memoryChild names the file that a child process of TestMemory checks, and
// memoryStrict tells it to be strict.
const (
	memoryChild  = "ABICHECK_MEMORY_CHILD"
	memoryStrict = "ABICHECK_MEMORY_STRICT"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(memoryChild); name != "" {
		if _, err := abicheck.Check(context.Background(), []string{name}, &abicheck.Options{Jobs: 2, Strict: os.Getenv(memoryStrict) != ""}); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		status, _ := os.ReadFile("/proc/self/status")
		os.Stdout.Write(status)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestMemory holds that a check of a file that is hostile, cut or large ends
// soon and takes at most the file's size and 64 MB more.
func TestMemory(t *testing.T) {
	const most = 48 << 20
	calls := make([]byte, 16<<20)
	for i := 0; i+5 <= len(calls); i += 5 { // each calls another place
		calls[i] = 0xe8
		binary.LittleEndian.PutUint32(calls[i+1:], uint32(i*7%len(calls)-i))
	}
	branches := make([]byte, 4<<20)
	for i := 0; i+6 <= len(branches); i += 6 { // je forward, out of any order
		copy(branches[i:], []byte{0x0f, 0x84})
		binary.LittleEndian.PutUint32(branches[i+2:], uint32(i*31%len(branches)-i))
	}
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"small", hostile([]byte{0xc3}, 1)},
		{"zeros", hostile(make([]byte, most), 0)},
		{"avx", hostile(repeat([]byte{0xc5, 0xf8, 0x77}, most), 0)},
		{"cpuid", hostile(repeat([]byte{0x0f, 0xa2, 0x85, 0xc0, 0x74, 0x00}, 4<<20), 1)},
		{"calls", hostile(calls, 1<<16)},
		{"branches", hostile(append([]byte{0x0f, 0xa2, 0xc5, 0xf8, 0x77}, branches...), 1)},
		{"symbols", hostile(repeat([]byte{0xc3}, 1<<20), 1<<20)},
		{"dynamic, as many as are read", hostileDynamic(68_000, false)},
		{"dynamic, undefined", hostileDynamic(68_000, true)},
		{"dynamic, too many", hostileDynamic(3<<20, false)},
		{"relocations", hostileTable(relocations(1<<20), elf.DT_RELA, elf.DT_RELASZ)},
		{"relocations of a large file", hostileTable(relocations(8<<20), elf.DT_RELA, elf.DT_RELASZ)},
		{"relocations, as many as are read", hostileTable(relocations(370_000), elf.DT_RELA, elf.DT_RELASZ)},
		{"packed relocations", hostileTable(packed(8<<20), 36, 35)},
		{"unwinding", hostileFrames(1<<20, 4096)},
		{"unwinding of much code", hostileFrames(4<<20, 4<<20)},
		{"unwinding, as much as is read", hostileFrames(180_000, 180_000)},
		{"object of as many symbols as are read", asObject(hostile(repeat([]byte{0xc3}, 1<<18), 125_000))},
		{"dylib of as many symbols as are read", hostileMach(105_000, 6)},
		{"Mach-O object of as many symbols as are read", hostileMach(105_000, 1)},
		{"object of symbols", asObject(hostile(repeat([]byte{0xc3}, 1<<20), 1<<20))},
		{"dylib of symbols", hostileMach(2<<20, 6)},
		{"Mach-O object of symbols", hostileMach(2<<20, 1)},
		{"as a linker makes it", large(200_000)},
		{"cut", hostile(make([]byte, most), 0)[:most/2]},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "x.so")
			if err := os.WriteFile(name, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			holdPeak(t, name, false)
		})
	}
}

// TestMemoryReal is TestMemory for libraries of torch and numpy: the largest one
// with code, those with many symbols, and one that takes long walks. All of
// libtorch_cpu.so is walked by --strict alone, which takes a quarter of a
// minute.
func TestMemoryReal(t *testing.T) {
	packages := "../.venv/lib/python3*/site-packages/"
	full := os.Getenv("THOXBUILD_TEST_FULL") != ""
	for _, lib := range []string{"torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so", "torch/lib/libtorch_cuda.so", "numpy.libs/*openblas*.so", "numpy/_core/_multiarray_umath*.so"} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s strict=%v", path.Base(lib), strict), func(t *testing.T) {
				found, _ := filepath.Glob(packages + lib)
				switch {
				case len(found) == 0:
					t.Skip("no such library in .venv: run make venv")
				case strict && !full:
					t.Skip("THOXBUILD_TEST_FULL is not set")
				}
				holdPeak(t, found[0], strict)
			})
		}
	}
}

// holdPeak checks a file in a process of its own and holds how much memory that
// had at most against the bound.
func holdPeak(t *testing.T, name string, strict bool) {
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), memoryChild+"="+name)
	if strict {
		cmd.Env = append(cmd.Env, memoryStrict+"=1")
	}
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// What wait4 tells would count this process before the exec.
	hwm := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(out)
	if hwm == nil {
		t.Skip("no peak memory of a process on this system")
	}
	kb, err := strconv.ParseInt(string(hwm[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	peak, bound := kb<<10, st.Size()+64<<20
	t.Logf("%d MB: peak %d MB, %v of processor time, %v", st.Size()>>20, peak>>20, cmd.ProcessState.UserTime(), time.Since(start))
	if peak > bound {
		t.Errorf("peak %d MB for a file of %d MB: more than %d MB", peak>>20, st.Size()>>20, bound>>20)
	}
}

// TestManyDynamicSymbols holds that a table too large to be read is told, and
// one that is just not, is read.
func TestManyDynamicSymbols(t *testing.T) {
	for n, want := range map[int]bool{68_000: false, 72_000: true} {
		name := filepath.Join(t.TempDir(), "x.so")
		if err := os.WriteFile(name, hostileDynamic(n, true), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := abicheck.Check(t.Context(), []string{name}, &abicheck.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var format []string
		for _, f := range r.Findings {
			if f.ID == "FORMAT" {
				format = append(format, f.Message)
			}
		}
		if (len(format) == 1) != want || len(format) > 1 {
			t.Errorf("%d symbols: %q", n, format)
		}
	}
}
