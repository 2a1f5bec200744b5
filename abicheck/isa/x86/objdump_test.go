package x86

import (
	"bufio"
	"debug/elf"
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestObjdump compares instruction boundaries inside functions with objdump.
// Its quirks are excepted by rule: it prints a stray prefix or REX, and fwait
// with the instruction behind it, as it likes.
func TestObjdump(t *testing.T) {
	tool, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("no objdump to compare with")
	}
	for _, path := range libraries(t) {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		known := map[uint64]bool{} // every instruction address of ours
		inside := map[uint64]uint64{}
		for _, fn := range functions(t, f) {
			for at := 0; at < len(fn.code); {
				pc := fn.addr + uint64(at)
				in, ok := Decode(fn.code[at:])
				if !ok {
					in.Len = 1
				}
				known[pc] = ok
				inside[pc] = uint64(in.Len)
				at += int(in.Len)
			}
			if len(known) > 3_000_000 {
				break // enough: iced compares the whole of it
			}
		}
		f.Close()
		cmd := exec.CommandContext(t.Context(), tool, "-d", "-w", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var n, bad int
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			addr, rest, ok := strings.Cut(sc.Text(), ":\t")
			if !ok {
				continue
			}
			pc, err := strconv.ParseUint(strings.TrimSpace(addr), 16, 64)
			if err != nil {
				continue
			}
			raw, text, _ := strings.Cut(rest, "\t")
			b, err := hex.DecodeString(strings.ReplaceAll(raw, " ", ""))
			size, ours := inside[pc]
			if err != nil || !ours || strings.Contains(text, "(bad)") || quirk(b, text) {
				continue
			}
			if n++; !known[pc] || size != uint64(len(b)) {
				if bad++; bad < 20 {
					t.Errorf("%s: 0x%x: % x %s: we say %d bytes", filepath.Base(path), pc, b, text, size)
				}
			}
		}
		cmd.Wait()
		t.Logf("%s: %d instructions, %d differ", filepath.Base(path), n, bad)
	}
}

func quirk(b []byte, text string) bool {
	return len(b) > 0 && b[0] == 0x9b || strings.HasPrefix(text, "rex") || strings.HasPrefix(text, "data16") && len(b) == 1 ||
		strings.HasPrefix(text, "cs ") && len(b) == 1
}
