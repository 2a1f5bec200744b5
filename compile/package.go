package compile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// packageFile is one file of a variant's folder apart from its library and
// metadata.
type packageFile struct {
	path   string // in the variant's folder
	digest action.Digest
}

// opsFile and metadataFile are generated; a package that brings one of its own
// would be overwritten in silence.
const (
	opsFile      = "_ops.py"
	metadataFile = "metadata.json"
)

// packageFiles lists the Python package of a kernel: every .py file, and the
// data files whose extension pyext names. Bytecode and hidden files stay out.
// A noarch kernel is its package, so there all files count.
func (p *Plan) packageFiles() ([]packageFile, error) {
	k := p.cfg.Kernel
	var pyext []string
	switch {
	case k.Torch != nil:
		pyext = k.Torch.PyExt
	case k.TorchNoarch != nil:
		pyext = k.TorchNoarch.PyExt
	}
	dir := path.Join(extDir, k.PythonName())
	root, err := os.OpenRoot(k.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files []packageFile
	err = fs.WalkDir(os.DirFS(k.Dir), dir, func(name string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		switch {
		case err != nil:
			return err
		case e.IsDir():
			if strings.HasPrefix(e.Name(), ".") || e.Name() == "__pycache__" {
				return fs.SkipDir
			}
			if rel == k.PythonName() {
				return configf("%s: a folder of the package's own name inside the package hides it from the loader; remove it", name)
			}
			return nil
		case strings.HasPrefix(e.Name(), ".") || path.Ext(name) == ".pyc" || !installed(name, pyext, k.TorchNoarch != nil):
			return nil
		case rel == opsFile || rel == metadataFile:
			return configf("%s: thoxbuild generates this file; remove it", name)
		case e.Type()&fs.ModeSymlink != 0:
			if err := staysInside(root, name); err != nil {
				return err
			}
		}
		d, err := p.cfg.Index.Digest(filepath.Join(k.Dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		p.files[d] = filepath.Join(k.Dir, filepath.FromSlash(name))
		p.sources[p.files[d]] = true
		files = append(files, packageFile{rel, d})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no Python package; expected %s/__init__.py, because the kernel is called %q", k.File, dir, k.General.Name)
	}
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(files, func(f packageFile) bool { return f.path == "__init__.py" }) {
		return nil, fmt.Errorf("%s: %s/__init__.py is missing", k.File, dir)
	}
	slices.SortFunc(files, func(a, b packageFile) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// staysInside follows a path's links. One that leads out of the kernel's folder
// would publish a file of this machine, and not the same one elsewhere.
func staysInside(root *os.Root, name string) error {
	if _, err := root.Stat(filepath.FromSlash(name)); err != nil {
		if _, there := os.Stat(filepath.Join(root.Name(), filepath.FromSlash(name))); there == nil {
			return configf("%s: the link leads out of the kernel's folder; put what it names there instead", name)
		}
		return err
	}
	return nil
}

// installed reports whether a file of the package goes into a variant.
func installed(name string, pyext []string, noarch bool) bool {
	ext := strings.TrimPrefix(path.Ext(name), ".")
	switch ext {
	case "py":
		return true
	case "pyi", "":
		return noarch
	}
	return noarch || slices.Contains(pyext, ext)
}

// addText puts a generated file into a variant's folder.
func (vp *variantPlan) addText(name string, text []byte) {
	vp.files = append(vp.files, packageFile{name, action.DigestOf(text)})
	vp.texts = append(vp.texts, text)
}

// libraryName is the file that the loader imports, with the suffix that
// Python gives modules of the stable ABI.
func (vp *variantPlan) libraryName() string { return vp.ops + ".abi3.so" }

// metadata is a variant's metadata.json but for the digest.
func (p *Plan) metadata(vp *variantPlan) manifests.Metadata {
	g := p.cfg.Kernel.General
	extra := p.backendTable(vp.variant.Compute.Backend)
	m := manifests.Metadata{
		Name:          g.Name,
		ID:            vp.ops,
		Version:       g.Version,
		KernelsMinVer: minLoader,
		License:       g.License,
		Upstream:      g.Upstream,
		Source:        g.Source,
		PythonDepends: slices.Concat([]string{}, g.PythonDepends, extra.PythonDepends),
		KernelDepends: slices.Concat([]manifests.KernelDependency{}, g.KernelDepends, extra.KernelDepends),
		Backend:       manifests.MetadataBackend{Type: vp.variant.Compute.Backend, Archs: p.archs(vp.variant)},
	}
	if m.KernelDepends == nil {
		m.KernelDepends = []manifests.KernelDependency{}
	}
	if len(m.KernelDepends) > 0 {
		m.KernelsMinVer = minLoaderDepends
	}
	if p.cfg.Builder != "" {
		m.Provenance = &manifests.Provenance{KernelBuilder: manifests.Builder{Version: p.cfg.Builder + vp.tools.summary()}}
	}
	return m
}

// The oldest loaders that read these files: the layout without a folder of
// the package's name, and dependencies between kernels.
const (
	minLoader        = "0.14.0"
	minLoaderDepends = "0.17.0"
)

func (p *Plan) backendTable(b manifests.Backend) manifests.BackendGeneral {
	g := p.cfg.Kernel.General
	switch b {
	case manifests.CUDA:
		return g.CUDA.BackendGeneral
	case manifests.Neuron:
		return g.Neuron
	case manifests.TPU:
		return g.TPU
	case manifests.XPU:
		return g.XPU
	}
	return manifests.BackendGeneral{}
}

// archs are the devices that a variant was compiled for: the union over its
// sections, sorted as text, which is how the reference tool writes them.
func (p *Plan) archs(v matrix.Variant) []string {
	var out []string
	if n := p.cfg.Kernel.TorchNoarch; n != nil {
		switch v.Compute.Backend {
		case manifests.CUDA:
			out = n.CUDACapabilities
		case manifests.ROCm:
			out = n.ROCmArchs
		}
		return out
	}
	for _, c := range v.Components {
		for _, a := range c.Archs {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	slices.Sort(out)
	return out
}

// digestFiles is the digest section of a variant's metadata.
func digestFiles(files []packageFile) *manifests.Digest {
	d := &manifests.Digest{Algorithm: manifests.SHA256, Files: map[string]string{}}
	for _, f := range files {
		d.Files[f.path] = base64.StdEncoding.EncodeToString(f.digest.Hash[:])
	}
	return d
}
