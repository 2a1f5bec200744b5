package a64

import (
	"archive/zip"
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// An oracle row says which feature an instruction needs by its mnemonic, as
// the manuals name it. Only the first row that fits counts.
var oracle = []struct {
	mnemonic string // a regular expression for the whole of it
	operands string // one for a part of the operands, or empty
	feat     Feat
}{
	// ZA and its kin before what has their names elsewhere.
	{`smstart|smstop|zero|fmopa|fmops|.mopa|.mops|bfmopa|rdsvl|addha|addva|addspl|addsvl`, ``, SME},
	{`.*`, `\bza[0-9.\[]|\bza\b`, SME},
	{`psel|revd|[su]clamp|fclamp`, ``, SME},
	{`.*`, `\b[zp][0-9]+[./,}]|\bp[0-9]+$|\{z[0-9]`, SVE},
	{`rdvl|addvl|addpl|cnt[bhwdp]|[su]?q?(inc|dec)[bhwdp]|rdffr|wrffr|setffr|prf[bhwd]|ctermeq|ctermne`, ``, SVE},

	{`crc32.*`, ``, CRC},
	{`(cas|casp|swp|ldadd|ldclr|ldeor|ldset|ldsmax|ldsmin|ldumax|ldumin|stadd|stclr|steor|stset|stsmax|stsmin|stumax|stumin)(a|l|al)?[bh]?`, ``, LSE},
	{`sqrdmlah|sqrdmlsh`, ``, RDM},
	{`fmlal2?|fmlsl2?`, ``, FHM},
	{`[su]dot`, ``, DOTPROD},
	{`usdot|sudot|[su]mmla|usmmla`, ``, I8MM},
	{`bf(dot|mmla|mlalb|mlalt|cvt|cvtn|cvtn2)`, ``, BF16},
	{`fcmla|fcadd`, ``, FCMA},
	{`fjcvtzs`, ``, JSCVT},
	{`frint(32|64)[xz]`, ``, FRINTTS},
	{`cfinv|rmif|setf8|setf16|axflag|xaflag`, ``, FLAGM},
	{`ldapr[bh]?|ldapur.*|stlur[bh]?`, ``, RCPC},
	{`aes.*`, ``, AES},
	{`pmull2?`, `\.1q`, AES},
	{`sha512.*|eor3|bcax|rax1|xar`, ``, SHA3},
	{`sha1.*|sha256.*`, ``, SHA2},
	{`sm[34].*`, ``, SM4},
	{`irg|gmi|subps?|addg|subg|stz?2?g|ldg|ldgm|stz?gm|stgp|cmpp`, ``, MTE},
	{`cpy.*|set[pgme].*`, ``, MOPS},
	{`ld64b|st64b.*`, ``, LS64},
	{`(br|blr|ret|eret)a[ab]z?|ldra[ab]|pac(ia|ib|da|db)z?|pac[id]z[ab]|aut(ia|ib|da|db)|aut[id]z[ab]|xpac[id]|pacga`, ``, PAUTH},
	{`sb`, ``, SB},
	{`ldlar[bh]?|stllr[bh]?`, ``, LOR},
	{`bc\..*|wfet|wfit`, ``, Later},
	// Half precision by its registers: conversions to and from it are as old
	// as ARMv8, and so are loads, stores and moves of lanes.
	{`fcvt|fcvtl2?|fcvtn2?`, ``, 0},
	{`f.*|[su]cvtf`, `\bh[0-9]+\b|\.[48]h|\.h\b`, FP16},
}

var compiled = func() (out []struct{ m, o *regexp.Regexp }) {
	for _, r := range oracle {
		out = append(out, struct{ m, o *regexp.Regexp }{regexp.MustCompile("^(?:" + r.mnemonic + ")$"), regexp.MustCompile(r.operands)})
	}
	return out
}()

// needs is the oracle's answer.
func needs(mnemonic, operands string) Feat {
	for i, r := range compiled {
		if r.m.MatchString(mnemonic) && r.o.MatchString(operands) {
			return oracle[i].feat
		}
	}
	return 0
}

// A line of objdump's.
type line struct {
	addr               uint64
	word               uint32
	mnemonic, operands string
}

// objdump reads the instructions of a file and calls f with each distinct
// text once for each word.
func objdump(t *testing.T, path string, f func(*line)) (n int) {
	t.Helper()
	tool, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip("no aarch64-linux-gnu-objdump to compare with (Debian: binutils-aarch64-linux-gnu)")
	}
	cmd := exec.CommandContext(t.Context(), tool, "-d", "-w", "-z", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	var l line
	for sc.Scan() {
		p := strings.SplitN(sc.Text(), "\t", 4)
		if len(p) < 3 || !strings.HasSuffix(p[0], ":") {
			continue
		}
		a, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(p[0], ":")), 16, 64)
		w, err2 := strconv.ParseUint(strings.TrimSpace(p[1]), 16, 32)
		if err != nil || err2 != nil || len(strings.TrimSpace(p[1])) != 8 {
			continue
		}
		l = line{addr: a, word: uint32(w), mnemonic: p[2]}
		if len(p) == 4 {
			l.operands, _, _ = strings.Cut(p[3], "\t//")
			l.operands, _, _ = strings.Cut(l.operands, " //")
		}
		n++
		f(&l)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return n
}

var registerName = regexp.MustCompile(`\b([xw])([0-9]+)\b|\bw?sp\b`)

// mentioned are the general registers in the operands.
func mentioned(operands string) (regs uint32) {
	operands, _, _ = strings.Cut(operands, "<")
	for _, m := range registerName.FindAllStringSubmatch(operands, -1) {
		if m[2] == "" {
			regs |= 1 << SP
			continue
		}
		n, _ := strconv.Atoi(m[2])
		regs |= 1 << (n & 31)
	}
	return regs
}

// compare holds Classify and Decode against objdump on one file: the feature,
// the registers, how control goes on and the address that is named.
func compare(t *testing.T, path string) {
	t.Helper()
	seen := map[uint32]bool{}
	var features, effects, undecoded int
	count := map[Feat]int{}
	n := objdump(t, path, func(l *line) {
		d := Decode(l.word)
		if bad := flows(l, &d); bad != "" {
			if effects++; effects < 30 {
				t.Errorf("%x: %08x %s %s: %s; we say %+v", l.addr, l.word, l.mnemonic, l.operands, bad, d)
			}
		}
		if seen[l.word] {
			return
		}
		seen[l.word] = true
		if strings.HasPrefix(l.mnemonic, ".") || l.mnemonic == "udf" {
			undecoded++
			return
		}
		got, want := Classify(l.word), needs(l.mnemonic, l.operands)
		count[got]++
		if got != want {
			if features++; features < 30 {
				t.Errorf("%x: %08x %s %s: we say it needs %v, objdump's name says %v", l.addr, l.word, l.mnemonic, l.operands, got, want)
			}
		}
	})
	t.Logf("%s: %d words, %d distinct, %d data; %d features differ, %d effects differ; %v",
		filepath.Base(path), n, len(seen), undecoded, features, effects, count)
}

var implicit = regexp.MustCompile(`^(ret.*|eret.*|bl|blr.*|svc|pac(ia|ib)(sp|z|1716)|aut(ia|ib)(sp|z|1716)|xpaclri|casp.*|prfu?m)$`)

// flows compares the effects of one instruction and says what is wrong.
func flows(l *line, d *Inst) string {
	if c := Classify(l.word); c&(SVE|SME|MTE|MOPS|LS64|Later) != 0 || strings.HasPrefix(l.mnemonic, ".") || l.mnemonic == "udf" {
		return ""
	}
	want := mentioned(l.operands)
	if got := d.Read | d.Write; got != want && !implicit.MatchString(l.mnemonic) {
		return "the registers differ"
	}
	flow := Next
	switch m, _, _ := strings.Cut(l.mnemonic, "."); {
	case m == "b" && l.mnemonic == "b", l.mnemonic == "b.al", l.mnemonic == "b.nv":
		flow = Jump
	case m == "b", m == "cbz", m == "cbnz", m == "tbz", m == "tbnz":
		flow = Cond
		if d.Tested == 0 && m != "b" {
			flow = d.Flow // of the zero register
		}
	case m == "bl":
		flow = Call
	case m == "br" || strings.HasPrefix(m, "bra"):
		flow = JumpReg
	case m == "blr" || strings.HasPrefix(m, "blra"):
		flow = CallReg
	case strings.HasPrefix(m, "ret"), strings.HasPrefix(m, "eret"):
		flow = Return
	case m == "brk", m == "hlt":
		flow = Stop
	case m == "svc":
		flow = Environment
	}
	if d.Flow != flow {
		return "the flow differs"
	}
	named := uint64(0)
	switch {
	case flow == Jump || flow == Cond || flow == Call || d.Op == ADR || d.Op == Literal:
		named = l.addr + uint64(d.Imm)
	case d.Op == ADRP:
		named = l.addr&^0xfff + uint64(d.Imm)
	default:
		return wrongNumber(l, d)
	}
	f := strings.Split(l.operands, ", ")
	text, _, _ := strings.Cut(f[len(f)-1], " ")
	if at, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64); err != nil || at != named {
		return "the address differs"
	}
	return ""
}

var number = regexp.MustCompile(`#(-?(?:0x)?[0-9a-f]+)`)

// wrongNumber compares the displacement of an access or the number that is added.
func wrongNumber(l *line, d *Inst) string {
	if d.Base == NoReg && d.Op != AddImm || d.Index != NoReg {
		return ""
	}
	text := l.operands
	if d.Base != NoReg {
		_, text, _ = strings.Cut(text, "[")
	}
	want := int64(0)
	if m := number.FindAllStringSubmatch(text, -1); len(m) > 0 {
		want, _ = strconv.ParseInt(m[0][1], 0, 64)
		if len(m) == 2 && strings.Contains(text, "lsl") {
			want <<= 12
		}
	}
	got := d.Imm
	if d.Op == AddImm && got < 0 {
		got = -got
	}
	if d.Base != NoReg && d.Rt == NoReg && d.Vt == NoReg && got == 0 {
		return "" // structures of vectors add their size
	}
	if d.Wback == NoWback && d.Base != NoReg && d.Vt != NoReg && d.Write != 0 {
		return ""
	}
	if got != want {
		return "the immediate differs"
	}
	return ""
}

// TestObjdump compares with objdump on the C and C++ libraries that come with
// the cross compiler.
func TestObjdump(t *testing.T) {
	libs := []string{"libstdc++.so.6", "libc.so.6", "libm.so.6", "libgomp.so.1", "libgcc_s.so.1", "ld-linux-aarch64.so.1"}
	for _, lib := range libs {
		path := filepath.Join("/usr/aarch64-linux-gnu/lib", lib)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%s is not there to compare with objdump (Debian: g++-aarch64-linux-gnu)", path)
		}
		compare(t, path)
	}
}

// TestObjdumpWheels compares with objdump on released libraries: openblas has
// SVE, BF16 and all that came between, torch a hundred megabytes of code.
func TestObjdumpWheels(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1 to download wheels for AArch64 and compare with objdump")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 with pip to download wheels with")
	}
	wheels := map[string][]string{"numpy==2.4.6": {"openblas", "_multiarray_umath"}}
	if os.Getenv("THOXBUILD_TEST_FULL") != "" {
		wheels["torch==2.13.0"] = []string{"libtorch_cpu.so"}
	}
	for pkg, members := range wheels {
		dir := t.TempDir()
		out, err := exec.CommandContext(t.Context(), python, "-m", "pip", "download", "-q", "--no-cache-dir", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check",
			"--python-version", "3.12", "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64", "-d", dir, pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("pip download %s: %v\n%s", pkg, err, out)
		}
		found, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
		for _, w := range found {
			for _, member := range members {
				compare(t, unpack(t, w, member, dir))
			}
		}
	}
}

// unpack writes the member of a wheel whose name has part in it to dir.
func unpack(t *testing.T, wheel, part, dir string) string {
	t.Helper()
	z, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, m := range z.File {
		base := filepath.Base(m.Name)
		if !strings.Contains(base, part) || !strings.Contains(base, ".so") {
			continue
		}
		r, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		path := filepath.Join(dir, base)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, r); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatalf("%s holds no %s", wheel, part)
	return ""
}
