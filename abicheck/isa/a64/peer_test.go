package a64

import (
	"bufio"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// disassemble returns, for each word, whether LLVM decodes it with the given
// attributes.
func disassemble(t *testing.T, words []uint32, attrs string) []string {
	t.Helper()
	mc, err := exec.LookPath("llvm-mc")
	if err != nil {
		t.Skip("no llvm-mc to compare with")
	}
	var in strings.Builder
	for _, w := range words {
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], w)
		for _, c := range b {
			in.WriteString(" 0x")
			in.WriteString(string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
		}
		in.WriteByte('\n')
	}
	name := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(name, []byte(in.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), mc, "-disassemble", "-show-encoding", "-triple=aarch64", "-mattr="+attrs, name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Only what decodes is printed, with its encoding behind it.
	text := map[uint32]string{}
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		line, enc, ok := strings.Cut(sc.Text(), "encoding: [")
		if !ok {
			continue
		}
		var w uint32
		for i, h := range strings.Split(strings.TrimSuffix(enc, "]"), ",") {
			h = strings.TrimPrefix(h, "0x")
			w |= uint32(strings.IndexByte("0123456789abcdef", h[0])<<4|strings.IndexByte("0123456789abcdef", h[1])) << (8 * i)
		}
		text[w] = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "//"))
	}
	cmd.Wait()
	res := make([]string, len(words))
	for i, w := range words {
		res[i] = text[w]
	}
	return res
}

// TestLLVM compares with LLVM's subtarget features: a word needs a feature if
// LLVM decodes it with everything enabled, and not without that feature.
func TestLLVM(t *testing.T) {
	n := 40_000
	if os.Getenv("THOXBUILD_TEST_FULL") != "" {
		n = 4_000_000
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	const everything = "+v8.7a,+fp-armv8,+neon,+crc,+lse,+rdm,+fullfp16,+fp16fml,+dotprod,+i8mm,+bf16,+complxnum,+jsconv,+fptoint,+flagm,+altnzcv," +
		"+rcpc,+rcpc-immo,+aes,+sha2,+sha3,+sm4,+sve,+sve2,+sve2-aes,+sve2-sha3,+sve2-sm4,+sve2-bitperm,+sme,+sme-f64,+sme-i64,+mte,+mops,+ls64,+pauth,+rand,+sb,+hbc,+wfxt,+f32mm,+f64mm"
	words := make([]uint32, n)
	for i := range words {
		words[i] = rnd.Uint32()
		if i&1 == 0 { // vectors are where the features are
			words[i] = words[i]&^(7<<25) | 7<<25
		}
	}
	all := disassemble(t, words, everything)
	base := disassemble(t, words, "+fp-armv8,+neon")
	var decoded, bad int
	for i, w := range words {
		if all[i] == "" {
			continue
		}
		decoded++
		f := Classify(w)
		if strings.Contains(all[i], "S3_") || strings.HasPrefix(all[i], "msr") || strings.HasPrefix(all[i], "mrs") || strings.HasPrefix(all[i], "sys") || strings.HasPrefix(all[i], "smc") || strings.HasPrefix(all[i], "dcps") {
			continue // system registers and calls have features of their own
		}
		if (f != 0) != (base[i] == "") {
			if bad++; bad < 60 {
				t.Errorf("%08x %q: we say %v, LLVM decodes it for armv8-a: %v", w, all[i], f, base[i] != "")
			}
		}
	}
	t.Logf("%d words decode, %d differ", decoded, bad)
}
