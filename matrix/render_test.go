package matrix

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

func TestRenderings(t *testing.T) {
	k := kernel(t, "src = [\"d.cu\"]\n\n[kernel.m]", "src = [\"d.cu\"]\ncuda-capabilities = [\"8.0\", \"9.0\", \"9.0a\"]\n\n[kernel.m]")
	w := &manifests.Workspace{Matrix: manifests.MatrixOverrides{Torch: []manifests.Version{{Major: 2, Minor: 13}}}}
	vs := expand(t, k, w)
	Decide(vs, func(n Need) error {
		if n.Tool == XCRun || n.Tool == XCMetal || n.Tool == HIPCC || n.Tool == ICPX {
			return errors.New("not on PATH")
		}
		return nil
	})
	missing := MissingRequired(k, w, vs)
	for file, render := range map[string]func(*bytes.Buffer) error{
		"testdata/table.txt":   func(b *bytes.Buffer) error { return Table(b, vs, missing) },
		"testdata/matrix.json": func(b *bytes.Buffer) error { return JSON(b, vs, missing) },
		"testdata/github.json": func(b *bytes.Buffer) error { return GitHub(b, vs) },
		"testdata/empty.json":  func(b *bytes.Buffer) error { return JSON(b, nil, nil) },
		"testdata/noarch.txt": func(b *bytes.Buffer) error {
			vs := expand(t, noarchKernel(t), nil)
			Decide(vs, everything)
			return Table(b, vs, nil)
		},
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Error(err)
		}
		golden(t, file, b.Bytes())
	}
	many := slices.Repeat(vs, 20)
	if err := GitHub(&bytes.Buffer{}, many); err == nil || !strings.Contains(err.Error(), "at most 256 jobs") {
		t.Errorf("%d jobs: %v", len(many), err)
	}
}
