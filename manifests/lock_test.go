package manifests

import (
	"bytes"
	"strings"
	"testing"
)

func TestLegacyHash(t *testing.T) {
	got, err := LegacyHash([]LegacyFile{
		{"_x.abi3.so", "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"},
		{"__init__.py", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
		{"_ops.py", "257cc5642cb1a054f08cc83f2d943e56fd3ebe99"},
		{"__pycache__/x.txt", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
		{"a.pyc", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
	})
	if want := "sha256-1b0db0a3ab289e6fbe2086e2e52220ae4a9a58dfe267ad123b7d1bc491c7359c"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if _, err := LegacyHash([]LegacyFile{{"a", "abc"}}); err == nil {
		t.Error("a short object id was accepted")
	}
}

const (
	commitA = "8ac69fc542a4306eade0759ef7c45b4f2ae57df0"
	commitB = "40d4194f48b6775c4be4776ed08035fabb0e758f"
)

const currentLock = `[
  {
    "dependency": {
      "repo-id": "a/b",
      "version": 2
    },
    "lock": {
      "commit": "` + commitA + `"
    }
  },
  {
    "dependency": {
      "repo-id": "a/b",
      "version": 10
    },
    "lock": {
      "commit": "` + commitB + `",
      "hash": "sha256-uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="
    }
  },
  {
    "dependency": {
      "repo-id": "a/b",
      "revision": "main"
    },
    "lock": {
      "commit": "` + commitA + `"
    }
  },
  {
    "dependency": {
      "repo-id": "a/c",
      "version": 1
    },
    "lock": {
      "commit": "` + commitA + `"
    }
  }
]`

const legacyLock = `[
  {
    "repo_id": "a/b",
    "sha": "` + commitA + `",
    "variants": {
      "torch213-cxx11-cpu-x86_64-linux": {
        "hash": "sha256-1b0db0a3ab289e6fbe2086e2e52220ae4a9a58dfe267ad123b7d1bc491c7359c",
        "hash_type": "git_lfs_concat"
      },
      "torch-cpu": {
        "hash": "sha256-1b0db0a3ab289e6fbe2086e2e52220ae4a9a58dfe267ad123b7d1bc491c7359c",
        "hash_type": "git_lfs_concat"
      }
    }
  }
]`

func TestLocksAreByteStable(t *testing.T) {
	for name, text := range map[string]string{"current": currentLock, "legacy": legacyLock, "empty": "[]"} {
		l, err := ParseLock([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (l.Legacy != nil) != (name == "legacy") {
			t.Errorf("%s: read as the other shape", name)
		}
		if got, err := l.Print(); err != nil || string(got) != text {
			t.Errorf("%s: %v, printed:\n%s", name, err, got)
		}
	}
}

func TestLockSorts(t *testing.T) {
	l, err := ParseLock([]byte(currentLock))
	if err != nil {
		t.Fatal(err)
	}
	list := l.Current
	l.Current = nil
	for i := range list {
		l.Set(list[len(list)-1-i])
	}
	ten := 10
	l.Set(LockedKernel{Dependency: KernelDependency{RepoID: "a/b", Version: &ten}, Commit: strings.ToUpper(commitA)})
	got, err := l.Print()
	want := strings.Replace(currentLock, commitB+`",
      "hash": "sha256-uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="`, commitA+`"`, 1)
	if err != nil || string(got) != want {
		t.Errorf("%v, printed:\n%s", err, got)
	}
}

func TestLockErrors(t *testing.T) {
	entry := `{"dependency":{"repo-id":"a/b","version":1},"lock":{"commit":"` + commitA + `"}}`
	for text, want := range map[string]string{
		``:                              "ends too early",
		`{}`:                            "expected an array of kernels, got object",
		`null`:                          "expected one array",
		`[] []`:                         "expected one array",
		`[1]`:                           "expected an object",
		"[\n  {,":                       "2:4: not valid JSON",
		`[` + entry + `,` + entry + `]`: "a/b v1 is locked twice",
		`[` + strings.Replace(entry, `"version":1`, `"version":1,"x":1`, 1) + `]`:          "[0].dependency.x: unknown key",
		`[` + strings.Replace(entry, `"version":1`, `"version":1,"revision":"x"`, 1) + `]`: "mutually exclusive",
		`[` + strings.Replace(entry, `,"version":1`, ``, 1) + `]`:                          "must be specified",
		`[` + strings.Replace(entry, commitA, "abc", 1) + `]`:                              "[0].lock.commit",
		`[` + entry + `,{"repo_id":"a/b","sha":"` + commitA + `","variants":{}}]`:          "[1].dependency: missing key",
		`[{"repo_id":"a/b","sha":"` + commitA + `","variants":{}},` + entry + `]`:          "[1].repo_id: missing key",
		strings.Replace(legacyLock, "git_lfs_concat", "sri", 1):                            "git_lfs_concat",
	} {
		if _, err := ParseLock([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func FuzzLock(f *testing.F) {
	f.Add([]byte(currentLock))
	f.Add([]byte(legacyLock))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock(data)
		if err != nil {
			return
		}
		first, err := l.Print()
		if err != nil {
			t.Fatalf("accepted, but not printed: %v", err)
		}
		again, err := ParseLock(first)
		if err != nil {
			t.Fatalf("printed form is not valid: %v\n%s", err, first)
		}
		second, err := again.Print()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("printed differently the second time:\n%s\n%s", first, second)
		}
	})
}
