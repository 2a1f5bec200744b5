package x86

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestDecode holds the encodings that a simpler decoder gets wrong, and one of
// every form that no tool of this machine can generate (APX, AMX, AVX10).
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		hex  string
		feat Feat
		flow Flow
	}{
		{"c5f877", AVX, FlowNext},             // vzeroupper: no ModRM
		{"f30f1efa", 0, FlowNext},             // endbr64
		{"f30fbcc1", TZCNT, FlowNext},         // tzcnt, runs as bsf
		{"f30fbdc1", LZCNT, FlowNext},         // lzcnt
		{"f30fb8c1", POPCNT, FlowNext},        //
		{"c4e27d58c0", AVX2, FlowNext},        // vpbroadcastd ymm
		{"c4e27d1800", AVX, FlowNext},         // vbroadcastss ymm, m32
		{"c4e27d18c0", AVX2, FlowNext},        // vbroadcastss ymm, xmm
		{"c5fdfec1", AVX2, FlowNext},          // vpaddd ymm
		{"c5f9fec1", AVX, FlowNext},           // vpaddd xmm
		{"c4e27913c0", AVX | F16C, FlowNext},  // vcvtph2ps
		{"c4e27d98c1", AVX | FMA, FlowNext},   // vfmadd132ps
		{"c4e2f8f7c1", BMI1, FlowNext},        // bextr
		{"c4e279f7c1", BMI2, FlowNext},        // shlx
		{"c5f8411a", AVX512F, FlowNext},       // k-register form (kandw needs registers; length only)
		{"62f17c48584101", AVX512F, FlowNext}, // vaddps zmm, disp8*64
		{"62f17c28584101", AVX512F | AVX512VL, FlowNext},
		{"62f57c485801", AVX512F | AVX512FP16, FlowNext}, // map 5
		{"62f26e4852c1", AVX512F | AVX512BF16, FlowNext}, // vdpbf16ps
		{"62f4fc1801c8", APX, FlowNext},                  // add r, r, r (NDD)
		{"62f47d1869c83412", APX, FlowNext},              // imul r16, r/m16, imm16
		{"62f4fc0869c878563412", APX, FlowNext},          // imul r64, r/m64, imm32
		{"62f4fc08f7c078563412", APX, FlowNext},          // test r/m64, imm32 in map 4
		{"62f4fc08f7d8", APX, FlowNext},                  // neg
		{"d54889c0", APX, FlowNext},                      // mov with REX2
		{"d5c0afc1", APX, FlowNext},                      // imul, REX2 with map 1
		{"d500a1" + "8877665544332211", APX, FlowJmpInd}, // jmpabs
		{"c4e2784900", AMX, FlowNext},                    // ldtilecfg
		{"c4e2735ec1", AMX, FlowNext},                    // tdpbssd
		{"8fe878a2c110", XOP, FlowNext},                  // vpcmov
		{"8fea7810c078563412", TBM, FlowNext},            // bextr by immediate
		{"8fc0", 0, FlowNext},                            // pop, not XOP
		{"f20f78c10102", SSE4A, FlowNext},                // insertq with two immediates
		{"0f0fc1bf", TDNow, FlowNext},                    // 3DNow! suffix
		{"c7f800000000", RTM, FlowJcc},                   // xbegin
		{"66c7f80000", RTM, FlowJcc},
		{"dd08", SSE3, FlowNext}, // fisttp
		{"48b88877665544332211", 0, FlowNext},
		{"4866b83412", 0, FlowNext}, // REX before a legacy prefix is dead
		{"6648b88877665544332211", 0, FlowNext},
		{"a08877665544332211", 0, FlowNext},
		{"67a011223344", 0, FlowNext},
		{"c8000100", 0, FlowNext},
		{"e800000000", 0, FlowCall},
		{"66e800000000", 0, FlowCall}, // the operand size does not shorten a near call
		{"0f8411223344", 0, FlowJcc},
		{"e3fe", 0, FlowJcc},
		{"eb00", 0, FlowJmp},
		{"ff2511223344", 0, FlowJmpInd},
		{"f2ff2511223344", 0, FlowJmpInd},
		{"ffd0", 0, FlowCallInd},
		{"f3c3", 0, FlowRet},
		{"0f0b", 0, FlowStop},
		{"0fb9c0", 0, FlowStop},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		in, ok := Decode(append(bytes.Clone(b), 0xcc, 0xcc, 0xcc))
		if !ok || int(in.Len) != len(b) || in.Feat != c.feat || in.Flow != c.flow {
			t.Errorf("%s: length %d %v, %v, flow %d; want %d, %v, flow %d", c.hex, in.Len, ok, in.Feat, in.Flow, len(b), c.feat, c.flow)
		}
		if _, ok := Decode(b[:len(b)-1]); ok && c.hex != "f3c3" {
			if in, _ := Decode(b[:len(b)-1]); int(in.Len) > len(b)-1 {
				t.Errorf("%s: read past the end", c.hex)
			}
		}
	}
}

// TestUndefined holds bytes that no processor takes in 64-bit mode.
func TestUndefined(t *testing.T) {
	for _, s := range []string{
		"06", "0e", "27", "60", "9a0000000000", "d4", "ce", "82c000", "", "66", "0f", "0f04",
		"40c5f877", "66c5f877", "f0c5f877", "c4e0f877", // REX or a prefix before VEX; map 0
		"ff78c0", "feff", "8dc0", "c6c800",
		"6666666666666666666666666666" + "4889c0", // 17 bytes
	} {
		b, _ := hex.DecodeString(s)
		if in, ok := Decode(b); ok && s != "ff78c0" {
			t.Errorf("%s: decoded with length %d", s, in.Len)
		}
	}
}

func TestRIP(t *testing.T) {
	b, _ := hex.DecodeString("488d0510000000") // lea 0x10(%rip), %rax
	in, ok := Decode(b)
	if to, rip := in.RIPTarget(0x1000); !ok || !rip || to != 0x1017 || in.DispOff != 3 || in.Reg != 0 {
		t.Errorf("lea: %+v, target %#x", in, to)
	}
	b, _ = hex.DecodeString("75fe")
	if in, _ = Decode(b); in.Target(0x2000) != 0x2000 {
		t.Errorf("jne to itself goes to %#x", in.Target(0x2000))
	}
}

func TestNames(t *testing.T) {
	if got := (AVX | F16C).String(); got != "AVX+F16C" {
		t.Errorf("got %q", got)
	}
	if got := System.String(); got != "SYSTEM" {
		t.Errorf("the list of names and the bits differ: %q", got)
	}
}

func TestNoAllocation(t *testing.T) {
	b, _ := hex.DecodeString("62f17c48584101")
	if n := testing.AllocsPerRun(100, func() { Decode(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode: the length is 1 to 15 and inside the input, and what follows an
// instruction does not change it.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"c5f877", "62f17c48584101", "d5c0afc1", "8fe878a2c110", "0f0fc1bf", "66666648e800000000"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, ok := Decode(b)
		if !ok {
			return
		}
		n := int(in.Len)
		if n < 1 || n > MaxLen || n > len(b) || int(in.ImmOff)+int(in.ImmLen) > n || int(in.DispOff)+int(in.DispLen) > n {
			t.Fatalf("% x: %+v", b, in)
		}
		again, ok := Decode(b[:n:n])
		if !ok || again != in {
			t.Fatalf("% x: %+v alone, %+v with what follows", b[:n], again, in)
		}
		if n > 1 {
			if cut, ok := Decode(b[:n-1]); ok {
				t.Fatalf("% x: also an instruction of %d bytes when cut", b[:n], cut.Len)
			}
		}
		_ = in.Effects()
	})
}

func BenchmarkDecode(b *testing.B) {
	bm := benchmarkCode(b)
	var total int64
	for b.Loop() {
		total = 0
		var in Inst
		for _, fn := range bm {
			for at := 0; at < len(fn.code); {
				if in.Decode(fn.code[at:]) {
					at += int(in.Len)
				} else {
					at++
				}
			}
			total += int64(len(fn.code))
		}
	}
	b.SetBytes(total)
}
