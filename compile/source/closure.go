package source

import (
	"path"
	"slices"
	"strings"
)

// Set is the declared files of a kernel by their path: relative to the
// kernel's folder, slash-separated, clean.
type Set map[string]Scan

// Unit is everything that one translation unit reads of a Set.
type Unit struct {
	// Files are the source and the declared files it reaches, sorted.
	Files []string
	// Torch says that the unit includes a header of torch, or may do so.
	Torch bool
	// Python says that it includes Python.h.
	Python bool
	// Name is the freest use of the extension's name in any of its files.
	Name NameUse
	// Missing are the quoted includes that no declared file answers. Most are
	// headers of torch or of the system in quotes.
	Missing []Missing
	// Absolute are the includes that name a place on this machine.
	Absolute []Missing
}

// Missing is an include that no declared file answers, or can.
type Missing struct {
	// From is the including file, Line the line in it.
	From string
	Line int
	// Path is the name as written.
	Path string
}

// torchRoots are the folders at the top of torch's include path. A header
// below one of them makes a unit depend on the torch version.
var torchRoots = []string{"torch", "ATen", "c10", "caffe2", "pybind11", "torchgen", "THC", "TH", "fmt", "nlohmann", "kineto", "libkineto", "tensorpipe", "xpu"}

// Unit follows the includes of a source through the declared files. dirs are
// the include folders in the order in which the compiler looks. When some
// file includes a computed name, all headers count as read.
func (s Set) Unit(src string, dirs []string) Unit {
	u := Unit{}
	seen := map[string]bool{src: true}
	queue := []string{src}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		scan := s[file]
		u.Name = max(u.Name, scan.Name)
		if scan.Computed {
			u.Torch = true
			for name := range s {
				if IsHeader(name) && !seen[name] {
					seen[name] = true
					queue = append(queue, name)
				}
			}
			slices.Sort(queue) // map order must not reach the result
		}
		for _, inc := range scan.Includes {
			if path.IsAbs(inc.Path) {
				u.Absolute = append(u.Absolute, Missing{file, inc.Line, inc.Path})
				continue
			}
			found := s.resolve(inc, file, dirs)
			for _, f := range found {
				if !seen[f] {
					seen[f] = true
					queue = append(queue, f)
				}
			}
			if len(found) > 0 {
				continue
			}
			root, _, nested := strings.Cut(inc.Path, "/")
			switch {
			case nested && slices.Contains(torchRoots, root):
				u.Torch = true
			case path.Base(inc.Path) == "Python.h":
				u.Python = true
			case inc.Quoted:
				u.Missing = append(u.Missing, Missing{file, inc.Line, inc.Path})
			}
		}
	}
	for f := range seen {
		u.Files = append(u.Files, f)
	}
	slices.Sort(u.Files)
	return u
}

// resolve returns the declared files that an include may name. All of them
// count, not only the first: include_next goes past it, and a superset is
// safe.
func (s Set) resolve(inc Include, from string, dirs []string) []string {
	var found []string
	try := func(dir string) {
		p := path.Join(dir, inc.Path)
		if _, ok := s[p]; ok && !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	if inc.Quoted {
		try(path.Dir(from))
	}
	for _, d := range dirs {
		try(d)
	}
	return found
}

// IsHeader reports whether a file is one that others include: it is no source
// of its own.
func IsHeader(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh", ".inl", ".inc", ".ipp", ".tpp", ".impl", ".def", ".metalh":
		return true
	}
	return false
}

// Kind is how a file is compiled.
type Kind int

// The kinds of sources. NotCompiled files are read by others at most.
const (
	NotCompiled Kind = iota
	CXX
	C
	CUDA
	HIP
	Metal
	ObjCXX
	ObjC
)

// KindOf tells the kind from the name.
func KindOf(name string) Kind {
	switch path.Ext(name) {
	case ".cpp", ".cc", ".cxx", ".c++", ".C", ".sycl":
		return CXX
	case ".c":
		return C
	case ".cu":
		return CUDA
	case ".hip":
		return HIP
	case ".metal":
		return Metal
	case ".mm":
		return ObjCXX
	case ".m":
		return ObjC
	}
	return NotCompiled
}
