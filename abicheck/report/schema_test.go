package report_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSARIFSchema validates what we write against the published schema of
// SARIF 2.1.0, as a package of its authors carries it.
func TestSARIFSchema(t *testing.T) {
	if os.Getenv("THOXBUILD_TEST_NETWORK") == "" {
		t.Skip("set THOXBUILD_TEST_NETWORK=1 to fetch the schema and a validator")
	}
	for _, tool := range []string{"npm", "python3", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s to fetch the schema with", tool)
		}
	}
	dir := t.TempDir()
	run := func(name string, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return out
	}
	run("npm", "pack", "-s", "@microsoft/jest-sarif@1.0.0-beta.0")
	run("tar", "xzf", "microsoft-jest-sarif-1.0.0-beta.0.tgz")
	schema := filepath.Join(dir, "package/lib/schemas/sarif-2.1.0-rtm.5.json")
	run("python3", "-m", "venv", "venv")
	run("venv/bin/python", "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check", "jsonschema==4.23.0")
	const validate = `
import json, sys, jsonschema
schema, doc = (json.load(open(p)) for p in sys.argv[1:3])
kind = jsonschema.validators.validator_for(schema)
bad = [f"{'/'.join(map(str, e.absolute_path))}: {e.message}" for e in kind(schema).iter_errors(doc)]
print("\\n".join(bad))
sys.exit(bool(bad))`
	check := func(b []byte) ([]byte, error) {
		doc := filepath.Join(dir, "doc.sarif")
		if err := os.WriteFile(doc, b, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "venv/bin/python"), "-c", validate, schema, doc)
		return cmd.CombinedOutput()
	}
	var b bytes.Buffer
	if err := sample().SARIF(&b); err != nil {
		t.Fatal(err)
	}
	if out, err := check(b.Bytes()); err != nil {
		t.Errorf("the schema refuses the report: %v\n%s", err, out)
	}
	// The validator can say no.
	if out, err := check(bytes.Replace(b.Bytes(), []byte(`"level": "error"`), []byte(`"level": "fatal"`), 1)); err == nil {
		t.Errorf("a level that does not exist passes: %s", out)
	}
}
