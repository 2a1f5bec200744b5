package metal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIns are a program for xcrun and one for python3: they write their
// arguments to a log and make the file that -o names.
const (
	xcrunStandIn = `#!/bin/sh
printf '%s\n' "xcrun $*" >>"$MAC_LOG"
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then printf 'bytes of %s' "$2" >"$2"; fi
  shift
done
`
	pythonStandIn = `#!/bin/sh
case "$1" in
-c) echo /opt/torch ;;
tests/metal/mac_check.py) printf '%s\n' "check $2" >>"$MAC_LOG" ;;
*) exec python3 "$@" ;;
esac
`
)

// TestMacCommands runs mac.sh with stand-ins for Xcode and holds the command
// lines that a Mac would run to what they must be: no Mac is at hand.
func TestMacCommands(t *testing.T) {
	for _, tool := range []string{"bash", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	bin, out := t.TempDir(), t.TempDir()
	log := filepath.Join(out, "log")
	for name, text := range map[string]string{"xcrun": xcrunStandIn, "python-of-the-mac": pythonStandIn} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "mac.sh", out, filepath.Join(bin, "python-of-the-mac"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MAC_LOG="+log)
	mustRun(t, cmd)
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	k := "kernels-src/thox-edge-ops"
	metal := func(name string) string {
		return "xcrun -sdk macosx metal -std=metal4.0 -O2 -I" + k + "/metal -c " + k + "/metal/" + name + ".metal -o OUT/obj/" + name + ".air"
	}
	cxx := func(source, object string) string {
		return "xcrun -sdk macosx clang++ -arch arm64 -mmacosx-version-min=26.0 -std=c++20 -O3 -DNDEBUG -fPIC -fvisibility=hidden" +
			" -DMETAL_KERNEL -DTORCH_EXTENSION_NAME=_thox_edge_ops_metal_dev" +
			` -DEMBEDDED_METALLIB_HEADER="_thox_edge_ops_metal_dev_metallib.h" -DEMBEDDED_METALLIB_NAMESPACE=_thox_edge_ops_metal_dev_metal` +
			" -IOUT/obj -Icompile/glue -I" + k + "/metal -I/opt/torch/include -I/opt/torch/include/torch/csrc/api/include -c " + k + "/" + source + " -o OUT/obj/" + object
	}
	want := []string{
		metal("norm"), metal("gate"), metal("rotary"), metal("prologue"),
		"xcrun -sdk macosx metallib -o OUT/obj/out.metallib OUT/obj/norm.air OUT/obj/gate.air OUT/obj/rotary.air OUT/obj/prologue.air",
		cxx("torch-ext/torch_binding.cpp", "torch_binding.o"),
		cxx("metal/edge_ops_metal.mm", "edge_ops_metal.o"),
		"xcrun -sdk macosx clang++ -arch arm64 -mmacosx-version-min=26.0 -bundle -undefined dynamic_lookup -o OUT/thox_edge_ops/_thox_edge_ops_metal_dev.abi3.so" +
			" OUT/obj/torch_binding.o OUT/obj/edge_ops_metal.o -L/opt/torch/lib -ltorch -ltorch_cpu -lc10 -framework Metal -framework Foundation",
		"check mps",
	}
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b), out, "OUT")), "\n")
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("command %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
	// The header that embeds the library compiles, and holds its bytes.
	header, err := os.ReadFile(filepath.Join(out, "obj", "_thox_edge_ops_metal_dev_metallib.h"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(header), "0x62,0x79,0x74,0x65,0x73") { // "bytes"
		t.Errorf("the header does not hold the library:\n%s", header)
	}
	c := needSyntaxOnly(t)
	source := filepath.Join(t.TempDir(), "uses.mm")
	text := `#include "_thox_edge_ops_metal_dev_metallib.h"
id<MTLLibrary> load(id<MTLDevice> device) { return _thox_edge_ops_metal_dev_metal::createLibrary(device); }
`
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c.command(t, append(host("-fno-objc-arc", source), "-I", filepath.Join(out, "obj"))...))
}
