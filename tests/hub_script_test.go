package tests

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thox-ai/thoxbuild/manifests"
)

// hubCommands are what scripts about publishing need besides thoxbuild: a Hub
// process, a registry, and variants that took no compiler to make.
func hubCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"hub": startHub, "registry": startRegistry, "variant": makeVariant, "exitcode": exitCode, "subst": subst,
	}
}

// startHub runs 'thoxbuild hub serve FLAGS' until the script ends, and puts
// its address in HF_ENDPOINT.
func startHub(ts *testscript.TestScript, neg bool, args []string) {
	path, err := exec.LookPath("thoxbuild")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"hub", "serve", "--quiet"}, args...)...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv("HF_ENDPOINT", strings.TrimSpace(url))
}

// startRegistry serves an empty registry and puts its host in REGISTRY.
func startRegistry(ts *testscript.TestScript, _ bool, _ []string) {
	s := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(s.Close)
	ts.Setenv("REGISTRY", strings.TrimPrefix(s.URL, "http://"))
}

// makeVariant is variant DIR NAME VERSION SEED: a Python variant with a fresh
// digest, as if built from a clean commit.
func makeVariant(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: variant DIR NAME VERSION SEED")
	}
	version, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(putVariant(filepath.Join(ts.MkAbs(args[0]), args[1]), version, args[3]))
}

func writeVariant(t testing.TB, dir string, version int, seed string) {
	t.Helper()
	if err := putVariant(dir, version, seed); err != nil {
		t.Fatal(err)
	}
}

// putVariant writes the variant that the folder is named after.
func putVariant(dir string, version int, seed string) error {
	name, err := manifests.ParseVariantName(filepath.Base(dir))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	m := &manifests.Metadata{
		Name: "demo", ID: "_demo_cpu_1234567", Version: version, License: "MIT", PythonDepends: []string{},
		Backend:    manifests.MetadataBackend{Type: name.Compute.Backend},
		Provenance: &manifests.Provenance{KernelBuilder: manifests.Builder{Version: "test"}, Kernel: &manifests.Commit{SHA: strings.Repeat("a", 40)}},
		Digest:     &manifests.Digest{Algorithm: manifests.SHA256, Files: map[string]string{}},
	}
	for file, text := range map[string]string{
		"__init__.py": "WHO = \"" + seed + "\"\n", "layers/rms.py": "class RMSNorm: pass\n", "weights.bin": strings.Repeat(seed+"\x00", 300_000),
	} {
		p := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(text))
		m.Digest.Files[file] = base64.StdEncoding.EncodeToString(sum[:])
	}
	b, err := m.Print()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifests.MetadataFile), b, 0o644)
}

// exitCode is exitcode N COMMAND...: the command must end with exactly N.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// subst is subst FILE OLD NEW: every OLD in the file becomes NEW; there must
// be one.
func subst(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: subst FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o644))
}
