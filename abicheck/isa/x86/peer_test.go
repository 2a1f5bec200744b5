package x86

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"debug/elf"
)

// icedNames gives iced's CPUID features the bits of ours; the empty name fills
// a bit that iced has no single name for.
var icedNames = [...]string{
	"SSE3", "SSSE3", "SSE4_1", "SSE4_2", "POPCNT", "CMPXCHG16B", "", "AES", "PCLMULQDQ", "SHA", "MOVBE", "LZCNT",
	"", "ADX", "SSE4A", "D3NOW", "AVX", "AVX2", "F16C", "FMA", "BMI1", "BMI2", "FMA4", "XOP", "TBM", "LWP",
	"VAES", "VPCLMULQDQ", "GFNI", "AVX_VNNI", "AVX_IFMA", "AVX_NE_CONVERT", "AVX_VNNI_INT8", "SHA512", "SM3",
	"AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "AVX512_IFMA", "AVX512_VBMI", "AVX512_VBMI2",
	"AVX512_VNNI", "AVX512_BITALG", "AVX512_VPOPCNTDQ", "AVX512_BF16", "AVX512_FP16", "AVX512_VP2INTERSECT",
	"AVX512_ER", "", "AMX_TILE", "", "CMPCCXADD", "RDRAND", "RDSEED",
}

// vectorFeat are the features whose agreement is demanded; the rest are rules
// of our own (tzcnt, privileged and rarely gated instructions).
const vectorFeat = SSE3 | SSSE3 | SSE41 | SSE42 | POPCNT | AES | PCLMUL | SHA | MOVBE | LZCNT | ADX | AVX | AVX2 | F16C | FMA |
	BMI2 | FMA4 | TBM | LWP | VAES | VPCLMUL | GFNI | AVXIFMA | SHA512 |
	AVX512F | AVX512VL | AVX512BW | AVX512DQ | AVX512CD | AVX512IFMA | AVX512VBMI | AVX512VBMI2 | AVX512VNNI |
	AVX512BITALG | AVX512POPCNT | AVX512BF16 | AVX512FP16 | AVX512VP2 | CMPCCXADD | RDRAND | RDSEED

type peer struct {
	w *bufio.Writer
	r *bufio.Reader
}

type peerInst struct {
	n, flow byte
	feat    Feat
}

// iced starts the independent decoder, built from testdata when
// THOXBUILD_TEST_FULL is set and cargo is there.
func iced(t *testing.T) *peer {
	t.Helper()
	if os.Getenv("THOXBUILD_TEST_FULL") == "" {
		t.Skip("set THOXBUILD_TEST_FULL=1 to build the iced-x86 peer and compare with it")
	}
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		t.Skip("no cargo to build the iced-x86 peer with")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/iced")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), cargo, "build", "--release", "--quiet")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the iced-x86 peer does not build here: %v\n%s", err, out)
	}
	p := exec.CommandContext(t.Context(), filepath.Join(dir, "target/release/iced-peer"), icedNames[:]...)
	p.Stderr = os.Stderr
	w, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); p.Wait() })
	return &peer{bufio.NewWriterSize(w, 1<<20), bufio.NewReaderSize(r, 1<<20)}
}

// send writes a frame in the background, so that the peer never blocks on a
// full pipe while nobody reads it.
func (p *peer) send(mode byte, b []byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		p.w.WriteByte(mode)
		binary.Write(p.w, binary.LittleEndian, uint32(len(b)))
		p.w.Write(b)
		done <- p.w.Flush()
	}()
	return done
}

func (p *peer) next(t *testing.T) peerInst {
	var b [10]byte
	if _, err := io.ReadFull(p.r, b[:]); err != nil {
		t.Fatal(err)
	}
	return peerInst{b[0], b[1], Feat(binary.LittleEndian.Uint64(b[2:]))}
}

// comparable brings the two feature sets to what both can say.
func comparable(f Feat) Feat {
	f &= vectorFeat
	if f&(AVX512F|AVX512BW|AVX512DQ) != 0 {
		// iced lists VL beside the others also where F is implied, and
		// names F only where nothing narrower exists.
		f &^= AVX512F | AVX | AVX2 | F16C | FMA
	}
	if f&(AVX2|FMA|F16C|AES|PCLMUL|GFNI|VAES|VPCLMUL|SHA512|AVXIFMA) != 0 {
		f &^= AVX
	}
	return f
}

func differ(in *Inst, q peerInst) bool {
	return in.Feat&(APX|AVX10|AMX|AVX512KNL|SM|AVXVNNI|AVXVNNIInt|AVXNEConvert|TDNow|XOP) == 0 &&
		comparable(in.Feat) != comparable(q.feat)
}

// sameFlow excepts what the two count differently on purpose: int3 and hlt end
// a path here; syscall and privileged calls return to the next instruction.
func sameFlow(in *Inst, flow byte) bool {
	switch {
	case in.Map == 0 && (in.Op == 0xcc || in.Op == 0xf4), in.Map == 1 && in.Op == 0x05, in.Feat&(System|RTM|Misc) != 0:
		return true
	}
	return byte(in.Flow) == flow
}

// TestIcedRandom compares random encodings, biased towards the dense maps.
func TestIcedRandom(t *testing.T) {
	p := iced(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var same, onlyMine, bad int
	const slots = 1 << 16
	buf := make([]byte, 16*slots)
	for range 4_000_000/slots + 1 {
		for i := 0; i < len(buf); i += 16 {
			s := buf[i : i+16]
			for j := range s {
				s[j] = byte(rnd.Uint32())
			}
			switch rnd.IntN(6) {
			case 0:
				s[0] = 0xc4
				s[1] = s[1]&0xe0 | byte(1+rnd.IntN(3))
			case 1:
				s[0] = 0x62
				s[1] = s[1]&^0x0f | byte(1+rnd.IntN(6))
				s[2] |= 4
			case 2:
				s[0], s[1] = 0x0f, []byte{0x38, 0x3a}[rnd.IntN(2)]
			case 3:
				s[0] = 0x0f
			case 4:
				s[0] = []byte{0x66, 0xf2, 0xf3}[rnd.IntN(3)]
				s[1] = 0x0f
			}
		}
		done := p.send(0, buf)
		for i := 0; i < len(buf); i += 16 {
			q := p.next(t)
			in, ok := Decode(buf[i : i+16])
			switch {
			case q.n == 0 && ok:
				onlyMine++
			case q.n == 0:
			case !ok || in.Len != q.n:
				if bad++; bad < 40 {
					t.Errorf("% x: length %d (%v), iced says %d", buf[i:i+16], in.Len, ok, q.n)
				}
			case differ(&in, q) || !sameFlow(&in, q.flow):
				if bad++; bad < 40 {
					t.Errorf("% x: %v flow %d, iced says %v flow %d", buf[i:i+int(q.n)], in.Feat, in.Flow, q.feat, q.flow)
				}
			default:
				same++
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d agree, %d differ, %d only we accept", same, bad, onlyMine)
}

// TestIcedLibrary compares every instruction of the functions of a library.
func TestIcedLibrary(t *testing.T) {
	p := iced(t)
	for _, path := range libraries(t) {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var n, bad int
		for _, fn := range functions(t, f) {
			done := p.send(1, fn.code)
			for at := 0; ; {
				q := p.next(t)
				if q.n == 255 {
					break
				}
				n++
				in, ok := Decode(fn.code[at:])
				if q.n == 0 {
					at++
					continue
				}
				if !ok || in.Len != q.n || differ(&in, q) {
					if bad++; bad < 40 {
						t.Errorf("%s: 0x%x: % x: length %d %v, iced says %d %v", filepath.Base(path), fn.addr+uint64(at),
							fn.code[at:min(len(fn.code), at+int(q.n))], in.Len, in.Feat, q.n, q.feat)
					}
				}
				at += int(q.n)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d instructions, %d differ", filepath.Base(path), n, bad)
		f.Close()
	}
}
