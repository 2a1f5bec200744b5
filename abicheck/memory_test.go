package abicheck_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// memoryChild names the file that a child process of TestMemory checks.
const memoryChild = "ABICHECK_MEMORY_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(memoryChild); name != "" {
		if _, err := abicheck.Check(context.Background(), []string{name}, &abicheck.Options{Jobs: 2}); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		status, _ := os.ReadFile("/proc/self/status")
		os.Stdout.Write(status)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hostile makes a library of one section of code and, if symbols is not zero,
// as many function symbols in it.
func hostile(code []byte, symbols int) []byte {
	const at = 0x1000
	le := binary.LittleEndian
	var b bytes.Buffer
	sym := make([]byte, 24*symbols)
	for i := range symbols {
		s := sym[24*i:]
		le.PutUint32(s, 1)
		s[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
		le.PutUint16(s[6:], 1)
		le.PutUint64(s[8:], at+uint64(i%max(len(code), 1)))
	}
	strs := []byte("\x00f\x00.text\x00.symtab\x00.strtab\x00")
	symAt := uint64(at + len(code))
	strAt := symAt + uint64(len(sym))
	shAt := strAt + uint64(len(strs))
	binary.Write(&b, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Shoff: shAt, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 4, Shstrndx: 3,
	})
	binary.Write(&b, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Off: at, Vaddr: at, Filesz: uint64(len(code)), Memsz: uint64(len(code)), Align: at})
	b.Write(make([]byte, at-b.Len()))
	b.Write(code)
	b.Write(sym)
	b.Write(strs)
	binary.Write(&b, le, []elf.Section64{
		{},
		{Name: 3, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: at, Off: at, Size: uint64(len(code))},
		{Name: 9, Type: uint32(elf.SHT_SYMTAB), Off: symAt, Size: uint64(len(sym)), Link: 3, Info: 1, Entsize: 24},
		{Name: 17, Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strs))},
	})
	return b.Bytes()
}

// hostileDynamic makes a library of n dynamic symbols in as few bytes as that
// takes: they share one name, and the hash table is two words.
func hostileDynamic(n int, undefined bool) []byte {
	const dynAt, hashAt, strAt, symAt = 0x1000, 0x1100, 0x1200, 0x2000
	le := binary.LittleEndian
	b := make([]byte, symAt+24*n)
	size := uint64(len(b))
	copy(b, "\x7fELF\x02\x01\x01")
	var head bytes.Buffer
	binary.Write(&head, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2,
	})
	binary.Write(&head, le, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: size, Memsz: size, Align: 0x1000},
		{Type: uint32(elf.PT_DYNAMIC), Flags: 4, Off: dynAt, Vaddr: dynAt, Filesz: 0x60, Memsz: 0x60},
	})
	copy(b, head.Bytes())
	for i, d := range []elf.Dyn64{
		{Tag: int64(elf.DT_HASH), Val: hashAt}, {Tag: int64(elf.DT_STRTAB), Val: strAt}, {Tag: int64(elf.DT_STRSZ), Val: 64},
		{Tag: int64(elf.DT_SYMTAB), Val: symAt}, {},
	} {
		le.PutUint64(b[dynAt+16*i:], uint64(d.Tag))
		le.PutUint64(b[dynAt+16*i+8:], d.Val)
	}
	le.PutUint32(b[hashAt+4:], uint32(n))
	copy(b[strAt+1:], "_ZN3c107dynamic9f")
	for i := 1; i < n; i++ {
		s := b[symAt+24*i:]
		le.PutUint32(s, 1+uint32(i%16))
		s[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
		if !undefined {
			le.PutUint16(s[6:], 1)
			le.PutUint64(s[8:], uint64(symAt+i))
		}
	}
	return b
}

// hostileTable makes a library of a page of code and one table that a loader
// reads, found by the given tags of the dynamic section.
func hostileTable(table []byte, at, size elf.DynTag) []byte {
	const dynAt, codeAt, tableAt = 0x1000, 0x2000, 0x3000
	le := binary.LittleEndian
	b := make([]byte, tableAt, tableAt+len(table))
	total := uint64(tableAt + len(table))
	var head bytes.Buffer
	binary.Write(&head, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 3,
	})
	binary.Write(&head, le, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: 5, Off: codeAt, Vaddr: codeAt, Filesz: 0x1000, Memsz: 0x1000, Align: 0x1000},
		{Type: uint32(elf.PT_LOAD), Flags: 6, Off: tableAt, Vaddr: tableAt, Filesz: total - tableAt, Memsz: total - tableAt, Align: 0x1000},
		{Type: uint32(elf.PT_DYNAMIC), Flags: 4, Off: dynAt, Vaddr: dynAt, Filesz: 0x60, Memsz: 0x60},
	})
	copy(b, head.Bytes())
	for i, d := range []elf.Dyn64{{Tag: int64(at), Val: tableAt}, {Tag: int64(size), Val: uint64(len(table))}} {
		le.PutUint64(b[dynAt+16*i:], uint64(d.Tag))
		le.PutUint64(b[dynAt+16*i+8:], d.Val)
	}
	for i := codeAt; i < tableAt; i++ {
		b[i] = 0xc3
	}
	return append(b, table...)
}

// relocations are n relative ones, each of another place to the same code.
func relocations(n int) []byte {
	b := make([]byte, 24*n)
	for i := range n {
		binary.LittleEndian.PutUint64(b[24*i:], uint64(0x3000+8*i))
		binary.LittleEndian.PutUint64(b[24*i+8:], uint64(elf.R_X86_64_RELATIVE))
		binary.LittleEndian.PutUint64(b[24*i+16:], 0x2000)
	}
	return b
}

// packed are relative relocations of 63 places a word.
func packed(n int) []byte {
	b := bytes.Repeat([]byte{0xff}, n)
	binary.LittleEndian.PutUint64(b, 0x3000)
	return b
}

// unwinding is an .eh_frame of n ranges, one byte of code each, as small as
// they can be.
func unwinding(n, code int) []byte {
	le := binary.LittleEndian
	b := []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 1, 1, 1, 0x03}
	b[0] = byte(len(b) - 4)
	for i := range n {
		r := make([]byte, 16)
		le.PutUint32(r, 12)
		le.PutUint32(r[4:], uint32(len(b)+4))
		le.PutUint32(r[8:], uint32(0x1000+i%code))
		le.PutUint32(r[12:], 1)
		b = append(b, r...)
	}
	return b
}

// hostileFrames makes a library with such an .eh_frame, each range of other
// code where code is as large.
func hostileFrames(n, code int) []byte {
	const at = 0x1000
	le := binary.LittleEndian
	frames := unwinding(n, code)
	text := repeat([]byte{0xc3}, code)
	strs := []byte("\x00.text\x00.eh_frame\x00.strtab\x00")
	frameAt := uint64(at + len(text))
	strAt := frameAt + uint64(len(frames))
	var b bytes.Buffer
	binary.Write(&b, le, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Shoff: strAt + uint64(len(strs)), Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 4, Shstrndx: 3,
	})
	binary.Write(&b, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Off: at, Vaddr: at, Filesz: uint64(len(text)), Memsz: uint64(len(text)), Align: at})
	b.Write(make([]byte, at-b.Len()))
	b.Write(text)
	b.Write(frames)
	b.Write(strs)
	binary.Write(&b, le, []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: at, Off: at, Size: uint64(len(text))},
		{Name: 7, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addr: frameAt, Off: frameAt, Size: uint64(len(frames))},
		{Name: 17, Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strs))},
	})
	return b.Bytes()
}

// asObject makes an object of what hostile makes.
func asObject(b []byte) []byte {
	binary.LittleEndian.PutUint16(b[16:], uint16(elf.ET_REL))
	return b
}

// hostileMach makes a Mach-O dylib or object of n symbols of one name.
func hostileMach(n int, typ uint32) []byte {
	le := binary.LittleEndian
	const symAt = 0x1000
	b := make([]byte, symAt+16*n+16)
	for i, v := range []uint32{0xfeedfacf, 0x01000007, 3, typ, 2, 152 + 24, 0} {
		le.PutUint32(b[4*i:], v)
	}
	c := b[32:]
	le.PutUint32(c, 0x19) // LC_SEGMENT_64 with one section of code
	le.PutUint32(c[4:], 152)
	le.PutUint64(c[32:], symAt)
	le.PutUint64(c[48:], symAt)
	le.PutUint32(c[60:], 7)
	le.PutUint32(c[64:], 1)
	copy(c[72:], "__text")
	copy(c[88:], "__TEXT")
	le.PutUint64(c[72+40:], 0x800)
	le.PutUint32(c[72+48:], 0x800)
	le.PutUint32(c[72+64:], 0x80000400)
	c = b[32+152:]
	le.PutUint32(c, 2) // LC_SYMTAB
	le.PutUint32(c[4:], 24)
	le.PutUint32(c[8:], symAt)
	le.PutUint32(c[12:], uint32(n))
	le.PutUint32(c[16:], uint32(symAt+16*n))
	le.PutUint32(c[20:], 16)
	copy(b[symAt+16*n:], "\x00_ab")
	for i := range n {
		s := b[symAt+16*i:]
		le.PutUint32(s, 1)
		s[4] = 1 // undefined
		if i%2 == 0 {
			s[4], s[5] = 0xf, 1
			le.PutUint64(s[8:], uint64(i%0x800))
		}
	}
	return b
}

func repeat(unit []byte, n int) []byte { return bytes.Repeat(unit, n/len(unit)) }

// TestMemory holds that a check of a file that is hostile, cut or large ends
// soon and takes at most the file's size and 64 MB more.
func TestMemory(t *testing.T) {
	const large = 48 << 20
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
		{"zeros", hostile(make([]byte, large), 0)},
		{"avx", hostile(repeat([]byte{0xc5, 0xf8, 0x77}, large), 0)},
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
		{"cut", hostile(make([]byte, large), 0)[:large/2]},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "x.so")
			if err := os.WriteFile(name, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), memoryChild+"="+name)
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
			peak, bound := kb<<10, int64(len(c.data))+64<<20
			t.Logf("%d MB: peak %d MB, %v of processor time, %v", len(c.data)>>20, peak>>20, cmd.ProcessState.UserTime(), time.Since(start))
			if peak > bound {
				t.Errorf("peak %d MB for a file of %d MB: more than %d MB", peak>>20, len(c.data)>>20, bound>>20)
			}
		})
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
