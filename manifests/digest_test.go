package manifests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	hello256 = "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="
	empty256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	hello512 = "MJ7MSJwS1utMxA9QyQLytNDtd+5RGnx6m808qG1M2G+YndNbxf9JlnDaNCVbRbDP2DDoH2Bdz33FVC6TrpzXbw=="
)

func TestHashReader(t *testing.T) {
	for _, c := range []struct {
		text string
		a    Algorithm
		want string
	}{{"hello world", SHA256, hello256}, {"", SHA256, empty256}, {"hello world", SHA512, hello512}} {
		if got, err := HashReader(strings.NewReader(c.text), c.a); err != nil || got != c.want {
			t.Errorf("%s of %q: %s, %v", c.a, c.text, got, err)
		}
	}
	if _, err := HashReader(strings.NewReader(""), "md5"); err == nil {
		t.Error("md5 was accepted")
	}
}

func TestHashVariant(t *testing.T) {
	outer := tree(t, map[string]string{
		"__pycache__/v/a.py":                   "hello world",
		"__pycache__/v/metadata.json":          "{}",
		"__pycache__/v/metadata.json.sigstore": "x",
		"__pycache__/v/sub/metadata.json":      "",
		"__pycache__/v/sub/__pycache__/a.txt":  "x",
		"__pycache__/v/sub/a.pyc":              "x",
		"__pycache__/v/.pyc":                   "",
		"__pycache__/v/data/ü.bin":             "hello world",
		"folder/inside.py":                     "x",
		"outside.txt":                          "hello world",
	})
	dir := filepath.Join(outer, "__pycache__", "v")
	link := func(target, name string) {
		if err := os.Symlink(filepath.Join(outer, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("outside.txt", "linked.txt")
	link("folder", "linked-folder")
	d, err := HashVariant(context.Background(), dir, SHA256)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a.py": hello256, "sub/metadata.json": empty256, ".pyc": empty256, "data/ü.bin": hello256, "linked.txt": hello256}
	if diff := cmp.Diff(want, d.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	link("nowhere", "broken")
	if _, err := HashVariant(context.Background(), dir, SHA256); err == nil {
		t.Error("a broken link was accepted")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := HashVariant(ctx, dir, SHA256); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

func TestCompareDigests(t *testing.T) {
	want := &Digest{SHA256, map[string]string{"b": "1", "a": "1", "c": "1"}}
	got := &Digest{SHA256, map[string]string{"b": "2", "c": "1", "z": "1", "y": "1"}}
	var kinds []string
	for _, d := range want.Compare(got) {
		kinds = append(kinds, string(d.Kind)+" "+d.File)
	}
	if diff := cmp.Diff([]string{"missing-file a", "mismatch b", "unknown-file y", "unknown-file z"}, kinds); diff != "" {
		t.Error(diff)
	}
	if d := want.Compare(&Digest{SHA512, nil}); len(d) != 1 || d[0].Kind != AlgorithmMismatch {
		t.Errorf("%v", d)
	}
	if d := want.Compare(want); d != nil {
		t.Errorf("equal digests differ: %v", d)
	}
}

func TestVerifyVariant(t *testing.T) {
	dir := tree(t, map[string]string{"__init__.py": "hello world", MetadataFile: minimalMetadata})
	ctx := context.Background()
	if _, err := VerifyVariant(ctx, dir); !errors.Is(err, ErrNoDigest) {
		t.Errorf("without a digest: %v", err)
	}
	m, err := ParseMetadata([]byte(minimalMetadata))
	if err != nil {
		t.Fatal(err)
	}
	if m.Digest, err = HashVariant(ctx, dir, SHA256); err != nil {
		t.Fatal(err)
	}
	text, err := m.Print()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, MetadataFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyVariant(ctx, dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "extra.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = VerifyVariant(ctx, dir)
	var de *DigestError
	if !errors.As(err, &de) || len(de.Diffs) != 1 || de.Diffs[0].Kind != UnknownFile || de.Diffs[0].File != "extra.py" {
		t.Errorf("with an extra file: %v", err)
	}
}
