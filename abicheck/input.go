package abicheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

// input is one file to open and check, or a variant folder to compare with
// its metadata.
type input struct {
	path  string // on disk, and as findings show it
	kind  kind
	dir   bool
	pkg   *rule.Package
	claim claim
}

// maxMetadata is far above any metadata.json.
const maxMetadata = 4 << 20

// gather lists what is to be checked under a path. A path that is named must
// be something we can check; what lies in a folder is taken if it is.
func gather(ctx context.Context, path string) ([]input, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		if !st.Mode().IsRegular() {
			return nil, notAFile(path, st.Mode())
		}
		k, err := sniffFile(path)
		if err != nil {
			return nil, err
		}
		if k == other {
			return nil, fmt.Errorf("%s: not a library, object, archive, wheel or folder", path)
		}
		in := input{path: path, kind: k}
		// A file inside a variant is judged as part of it.
		if dir := filepath.Dir(path); k != zipKind && isVariant(dir) {
			in.pkg, in.claim = variantPackage(dir), variantClaim(dir)
			addLibraries(dir, in.pkg)
		}
		return []input{in}, nil
	}
	return walk(ctx, path)
}

func walk(ctx context.Context, root string) ([]input, error) {
	var found []input
	var distInfos []string
	tree := &rule.Package{Libraries: map[string]bool{}}
	type scope struct {
		dir   string
		pkg   *rule.Package
		claim claim
	}
	scopes := []scope{{root, tree, claim{}}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for len(scopes) > 1 && !inside(scopes[len(scopes)-1].dir, path) {
			scopes = scopes[:len(scopes)-1]
		}
		if d.IsDir() {
			if path != root && d.Name() == ".git" {
				return filepath.SkipDir
			}
			if strings.HasSuffix(path, ".dist-info") {
				distInfos = append(distInfos, path)
			}
			if isVariant(path) {
				s := scope{path, variantPackage(path), variantClaim(path)}
				scopes = append(scopes, s)
				found = append(found, input{path: path, dir: true, pkg: s.pkg, claim: s.claim})
			}
			return nil
		}
		s := scopes[len(scopes)-1]
		if !d.Type().IsRegular() {
			if d.Type()&fs.ModeSymlink != 0 {
				s.pkg.Libraries[d.Name()] = true
			}
			return nil
		}
		k, err := sniffFile(path)
		if err != nil {
			return err
		}
		if k == zipKind && !strings.HasSuffix(path, ".whl") {
			return nil // archives of data; one that is named is read
		}
		if k != other {
			s.pkg.Libraries[d.Name()] = true
			found = append(found, input{path: path, kind: k, pkg: s.pkg, claim: s.claim})
		}
		return nil
	})
	installed(found, distInfos)
	return found, err
}

func inside(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

func isVariant(dir string) bool {
	st, err := os.Lstat(filepath.Join(dir, manifests.MetadataFile))
	return err == nil && st.Mode().IsRegular()
}

// variantPackage reads the metadata of a variant; one that cannot be read is
// told by the rule META and gives a package without.
func variantPackage(dir string) *rule.Package {
	p := &rule.Package{Libraries: map[string]bool{}}
	f, err := openFile(filepath.Join(dir, manifests.MetadataFile))
	if err != nil {
		return p
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMetadata))
	if err != nil {
		return p
	}
	if m, err := manifests.ParseMetadata(data); err == nil {
		p.Metadata = m
	}
	return p
}

func addLibraries(dir string, p *rule.Package) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		p.Libraries[e.Name()] = true
	}
}

func sniffFile(path string) (kind, error) {
	f, err := openFile(path)
	if err != nil {
		return other, err
	}
	defer f.Close()
	var head [sniffLen]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return other, fmt.Errorf("%s: %w", path, err)
	}
	return sniff(path, head[:n]), nil
}
