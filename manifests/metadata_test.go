package manifests

import (
	"bytes"
	"strings"
	"testing"
)

const minimalMetadata = `{"name":"a-b","id":"_a_b_cpu_1234567","version":1,"license":"MIT","python-depends":[],"backend":{"type":"cpu"}}`

const fullMetadata = `{
  "name": "a-b",
  "id": "_a_b_cuda_1a2b3c4",
  "version": 2,
  "kernels-minver": "0.17.0",
  "license": "Apache-2.0",
  "upstream": "https://example.com/<a>&b",
  "source": "git@example.com:a/b",
  "python-depends": [
    "einops",
    "nvidia-cutlass-dsl"
  ],
  "kernel-depends": [
    {
      "repo-id": "x/y",
      "version": 0
    },
    {
      "repo-id": "x/z",
      "revision": "mäin"
    }
  ],
  "backend": {
    "type": "cuda",
    "archs": [
      "10.0",
      "7.5",
      "9.0a"
    ],
    "future": {}
  },
  "digest": {
    "algorithm": "sha256",
    "files": {
      "__init__.py": "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=",
      "_ops.py": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    }
  },
  "provenance": {
    "kernel-builder": {
      "version": "thoxbuild 0.1",
      "commit": "8ac69fc542a4306eade0759ef7c45b4f2ae57df0",
      "dirty": false
    },
    "kernel": {
      "commit": "40d4194f48b6775c4be4776ed08035fabb0e758f",
      "dirty": true
    }
  },
  "x-later": [
    1.50,
    null,
    {
      "k": "v"
    }
  ]
}`

func TestMetadataIsByteStable(t *testing.T) {
	m, err := ParseMetadata([]byte(fullMetadata))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Print(); err != nil || string(got) != fullMetadata {
		t.Errorf("%v, printed:\n%s", err, got)
	}
	// Whatever the order and layout it was read in.
	compact := strings.NewReplacer("\n", "", "  ", "").Replace(fullMetadata)
	moved := strings.Replace(compact, `{"name": "a-b",`, "{", 1)
	moved = moved[:len(moved)-1] + `,"name":"a-b"}`
	m, err = ParseMetadata([]byte(moved))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Print(); err != nil || string(got) != fullMetadata {
		t.Errorf("%v, printed:\n%s", err, got)
	}
}

func TestMetadataErrors(t *testing.T) {
	for change, want := range map[string]string{
		`"name": "a-b" -> "nam": "a-b"`:                                                            "name: missing key",
		`"name": "a-b" -> "name": "A"`:                                                             "name: \"A\": expected at least",
		`"name": "a-b", -> "name": "a-b", "name": "a-c",`:                                          `key "name" occurs twice`,
		`"version": 2 -> "version": "2"`:                                                           "version: expected a non-negative integer",
		`"version": 2 -> "version": -2`:                                                            "version: expected a non-negative integer",
		`"id": "_a_b_cuda_1a2b3c4" -> "id": "../x"`:                                                "expected a Python identifier",
		`"0.17.0" -> "0.17"`:                                                                       "expected three numbers",
		`"type": "cuda" -> "type": "vulkan"`:                                                       "unknown backend \"vulkan\"",
		`"algorithm": "sha256" -> "algorithm": "md5"`:                                              "expected sha256 or sha512",
		`"algorithm": "sha256" -> "algorithm": "sha512"`:                                           "expected 64 bytes in padded base64",
		`zek=", -> ze=", `:                                                                         "padded base64",
		`"algorithm": "sha256", -> "algorithm": "sha256", "more": 1,`:                              "digest.more: unknown key",
		`"8ac69fc542a4306eade0759ef7c45b4f2ae57df0" -> "8ac69fc"`:                                  "40 or 64 lower-case hex",
		`"8ac69fc542a4306eade0759ef7c45b4f2ae57df0" -> "8AC69FC542A4306EADE0759EF7C45B4F2AE57DF0"`: "lower-case hex",
		`"dirty": true -> "dirtx": true`:                                                           "provenance.kernel.commit: commit and dirty must come together",
		`"kernel-builder": -> "kernel-bilder":`:                                                    "provenance.kernel-builder: missing key",
		`"version": 0 -> "version": 0, "revision": "x"`:                                            "mutually exclusive",
		`"einops", -> 3,`:                                                                          "expected an array of strings",
		`"license": "Apache-2.0" -> "license": null`:                                               "expected a value, got null",
		`"upstream": "https:// -> "upstream": "ftp://`:                                             "unsupported scheme",
		"\"x-later\": [ -> \"x-later\": [[":                                                        "not valid JSON",
	} {
		old, replacement, _ := strings.Cut(change, " -> ")
		if !strings.Contains(fullMetadata, old) {
			t.Fatalf("%q is not in the text", old)
		}
		_, err := ParseMetadata([]byte(strings.Replace(fullMetadata, old, replacement, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", change, err, want)
		}
	}
	for _, text := range []string{"", "[]", "null", minimalMetadata + "x", minimalMetadata[:40]} {
		if _, err := ParseMetadata([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestLegacyCommitKey(t *testing.T) {
	old := strings.Replace(fullMetadata, `"commit": "40d`, `"sha": "40d`, 1)
	m, err := ParseMetadata([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Print(); err != nil || string(got) != fullMetadata {
		t.Errorf("%v, printed:\n%s", err, got)
	}
}

func TestExtensionName(t *testing.T) {
	if id, err := ExtensionName("thox-edge-ops", CPU, "1a2b3c4"); err != nil || id != "_thox_edge_ops_cpu_1a2b3c4" {
		t.Error(id, err)
	}
	for _, bad := range []string{"", "a-b", "ä"} {
		if id, err := ExtensionName("a-b", CPU, bad); err == nil {
			t.Errorf("%q was accepted: %s", bad, id)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(minimalMetadata))
	f.Add([]byte(fullMetadata))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMetadata(data)
		if err != nil {
			return
		}
		first, err := m.Print()
		if err != nil {
			t.Fatalf("accepted, but not printed: %v", err)
		}
		again, err := ParseMetadata(first)
		if err != nil {
			t.Fatalf("printed form is not valid: %v\n%s", err, first)
		}
		second, err := again.Print()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("printed differently the second time:\n%s\n%s", first, second)
		}
	})
}
