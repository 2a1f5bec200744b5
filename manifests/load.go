package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// FileName is the name that both forms of the file have.
const FileName = "build.toml"

// Project is what a command works on: the kernels, and the workspace that
// names them.
type Project struct {
	// Workspace is never nil. A kernel outside of any workspace has an empty
	// one, whose Dir is the kernel's.
	Workspace *Workspace
	// Kernels are in the order of the workspace.
	Kernels []*Kernel
	// Warnings are the problems that don't keep the files from being used.
	Warnings Problems
}

// Load reads the build.toml at path, which is the file or its folder, with
// every kernel that a workspace names, and checks them against the disk. A
// lone kernel is looked up in the workspace above it, so that its overrides
// hold however the kernel is named.
//
// Every problem of every file is found in one run; the error is then of type
// Problems.
func Load(path string) (*Project, error) {
	file := path
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read %s: %w", FileName, err)
	} else if info.IsDir() {
		file = filepath.Join(path, FileName)
	}
	b, err := LoadBuild(file)
	if err != nil {
		return nil, err
	}
	if b.Kernel == nil {
		return loadMembers(b)
	}
	p := &Project{Workspace: &Workspace{Dir: b.Kernel.Dir}, Kernels: []*Kernel{b.Kernel}, Warnings: b.Warnings}
	w, err := findWorkspace(b.Kernel.Dir)
	if err != nil {
		return nil, err
	}
	if w != nil {
		p.Workspace = w.Workspace
		p.Warnings = append(p.Warnings, w.Warnings...)
	}
	return p, nil
}

// LoadBuild reads one build.toml and checks its paths against the disk. It
// opens no other build.toml.
func LoadBuild(file string) (*Build, error) {
	data, err := readLimited(file, maxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no such file; expected a kernel or a workspace there", file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	b, parseErr := ParseBuild(file, data)
	var ps Problems
	if parseErr != nil && !errors.As(parseErr, &ps) {
		return nil, parseErr
	}
	if parseErr != nil {
		// The paths of a file that is wrong otherwise are looked at too, so
		// that one run shows everything.
		if k := parseLoosely(file, data); k != nil {
			ps = append(ps, k.checkDisk(dir)...).Sort()
		}
		return nil, ps
	}
	if b.Workspace != nil {
		b.Workspace.Dir = dir
		return b, nil
	}
	b.Kernel.Dir = dir
	ps = append(b.Warnings, b.Kernel.checkDisk(dir)...).Sort()
	if ps.Err() != nil {
		return nil, ps
	}
	b.Warnings = ps
	return b, nil
}

// parseLoosely returns what could be understood of a kernel with errors.
func parseLoosely(file string, data []byte) *Kernel {
	root, prob := parseTOML(file, data)
	if prob != nil || root.table.vals["workspace"] != nil {
		return nil
	}
	r := &reader{positions: map[string]Pos{}}
	return r.kernel(file, root)
}

func readLimited(file string, limit int64) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("expected a regular file")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%d bytes: expected at most %d", info.Size(), limit)
	}
	return os.ReadFile(file)
}

func loadMembers(b *Build) (*Project, error) {
	w := b.Workspace
	p := &Project{Workspace: w}
	all := b.Warnings
	for i, rel := range w.Kernels {
		key := fmt.Sprintf("workspace.kernels[%d]", i)
		file := filepath.Join(filepath.Dir(w.File), filepath.FromSlash(rel), FileName)
		m, err := LoadBuild(file)
		var ps Problems
		switch {
		case errors.As(err, &ps):
			all = append(all, ps...)
		case err != nil:
			all = append(all, Problem{Pos: w.Pos(key), Severity: Error, ID: "build/kernel", Key: key, Message: err.Error()})
		case m.Kernel == nil:
			all = append(all, Problem{Pos: w.Pos(key), Severity: Error, ID: "build/kernel", Key: key,
				Message: fmt.Sprintf("%s is a workspace; expected a kernel", file)})
		default:
			all = append(all, m.Warnings...)
			p.Kernels = append(p.Kernels, m.Kernel)
		}
	}
	if len(p.Kernels) == len(w.Kernels) {
		all = append(all, w.checkMembers(p.Kernels)...)
	}
	if all.Err() != nil {
		return nil, all
	}
	p.Warnings = all
	return p, nil
}

// findWorkspace looks for a workspace above dir that names it. It stops at
// the root of the repository.
func findWorkspace(dir string) (*Build, error) {
	for up := dir; ; {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return nil, nil
		}
		next := filepath.Dir(up)
		if next == up {
			return nil, nil
		}
		up = next
		file := filepath.Join(up, FileName)
		data, err := readLimited(file, maxManifestBytes)
		if err != nil {
			continue
		}
		root, prob := parseTOML(file, data)
		if prob != nil || root.table.vals["workspace"] == nil {
			continue
		}
		b, err := LoadBuild(file)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(up, dir)
		if err == nil && slices.Contains(b.Workspace.Kernels, filepath.ToSlash(rel)) {
			return b, nil
		}
	}
}

// checkDisk looks for the files that a kernel names. Links are followed, but
// not out of the kernel's folder.
func (k *Kernel) checkDisk(dir string) (ps Problems) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Problems{{Pos: Pos{File: k.File}, Severity: Error, ID: "build/path", Message: err.Error()}}
	}
	defer root.Close()
	add := func(sev Severity, id, key, hint, format string, args ...any) {
		ps = append(ps, Problem{Pos: k.Pos(key), Severity: sev, ID: id, Key: key, Message: key + ": " + fmt.Sprintf(format, args...), Hint: hint})
	}
	sources := func(prefix string, list []string) {
		for i, s := range list {
			if _, err := checkRelPath(s); err != nil {
				continue // reported already
			}
			key := fmt.Sprintf("%s.src[%d]", prefix, i)
			info, err := root.Stat(filepath.FromSlash(s))
			switch {
			case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(s, "*?[{"):
				add(Error, "build/missing-file", key, "patterns are not expanded; list each file", "no file %q", s)
			case errors.Is(err, fs.ErrNotExist):
				add(Error, "build/missing-file", key, nearestFile(root, s), "no file %q in the kernel's folder", s)
			case err != nil:
				add(Error, "build/missing-file", key, "", "%q: %v", s, rootCause(err))
			case !info.Mode().IsRegular():
				add(Error, "build/missing-file", key, "", "%q is not a regular file", s)
			}
		}
	}
	includes := func(prefix string, list []string) {
		for i, s := range list {
			if _, err := checkRelPath(s); err != nil {
				continue
			}
			if info, err := root.Stat(filepath.FromSlash(s)); err != nil || !info.IsDir() {
				add(Warning, "build/missing-folder", fmt.Sprintf("%s.include[%d]", prefix, i), "", "no folder %q in the kernel's folder", s)
			}
		}
	}
	ext := ""
	switch {
	case k.Torch != nil:
		ext = "torch-ext"
		sources("torch", k.Torch.Src)
		includes("torch", k.Torch.Include)
	case k.TVMFFI != nil:
		ext = "tvm-ffi-ext"
		sources("tvm-ffi", k.TVMFFI.Src)
		includes("tvm-ffi", k.TVMFFI.Include)
	case k.TorchNoarch != nil:
		ext = "torch-ext"
	}
	for _, s := range k.Sections {
		prefix := displayPath([]string{"kernel", s.Name})
		sources(prefix, s.Src)
		includes(prefix, s.Include)
	}
	if name := k.PythonName(); ext != "" && kernelNameRE.MatchString(k.General.Name) {
		init := path.Join(ext, name, "__init__.py")
		if info, err := root.Stat(filepath.FromSlash(init)); err != nil || !info.Mode().IsRegular() {
			hint := ""
			if name != k.General.Name {
				if _, err := root.Stat(filepath.FromSlash(path.Join(ext, k.General.Name))); err == nil {
					hint = fmt.Sprintf("rename %s/%s: dashes become underscores", ext, k.General.Name)
				}
			}
			add(Error, "build/missing-package", "general.name", hint, "no Python package %s, which is what users import", init)
		}
		if _, err := root.Stat(filepath.FromSlash(path.Join(ext, name, name))); err == nil {
			add(Error, "build/package-layout", "general.name", "rename it; the loader would import it instead of the package",
				"%s/%s has a member of its own name", ext, name)
		}
	}
	return ps
}

// nearestFile suggests a file of the same folder with a similar name.
func nearestFile(root *os.Root, file string) string {
	dir, err := root.Open(filepath.FromSlash(path.Dir(file)))
	if err != nil {
		return ""
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(10_000)
	slices.Sort(names)
	if hint := didYouMean(path.Base(file), names); hint != "" {
		return strings.Replace(hint, `"`, `"`+strings.TrimPrefix(path.Dir(file)+"/", "./"), 1)
	}
	return ""
}

// rootCause drops the absolute path that a PathError carries.
func rootCause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
