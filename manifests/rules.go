package manifests

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The rules of single values. Upstream's schema checks the first two; the
// others are this package's own, for mistakes that would surface only on a
// user's machine.
var (
	kernelNameRE  = regexp.MustCompile(`^[a-z][-a-z0-9]*[a-z0-9]$`)
	gitSchemes    = []string{"https", "http", "git", "ssh", "git+ssh", "git+https", "git+http"}
	repoIDRE      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)
	licenseRE     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]*$`)
	sectionNameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	capabilityRE  = regexp.MustCompile(`^[0-9]{1,6}\.[0-9][af]?(\+PTX)?$`)
	gfxRE         = regexp.MustCompile(`^gfx[0-9]{3,4}[0-9a-f]?$|^gfx[0-9]{1,2}[0-9a-f]{2}$`)
)

// minStableABI is the first torch with a stable ABI for extensions.
var minStableABI = Version{2, 9}

// dependencies are the C++ libraries that a section may depend on.
var dependencies = []string{
	"cutlass_2_10", "cutlass_3_5", "cutlass_3_6", "cutlass_3_8", "cutlass_3_9",
	"cutlass_4_0", "cutlass_4_4", "cutlass_4_5", "sycl_tla", "metal-cpp", "torch",
}

// pythonDepends are the curated Python packages, by backend; the loader
// refuses any other name. "" is [general] itself.
var pythonDepends = map[Backend][]string{
	"":     {"einops", "helion", "tvm-ffi"},
	CUDA:   {"nvidia-cutlass-dsl"},
	Neuron: {"nki"},
	TPU:    {},
	XPU:    {"onednn"},
}

// checkGitURL accepts an absolute URL with a scheme that git speaks, or the
// scp form host:path.
func checkGitURL(s string) error {
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if !slices.Contains(gitSchemes, strings.ToLower(scheme)) {
			return fmt.Errorf("unsupported scheme %q; expected %s", scheme, oneOf(gitSchemes))
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || rest == "" {
			return fmt.Errorf("invalid git URL; expected https://host/path")
		}
		return nil
	}
	host, p, ok := strings.Cut(s, ":")
	if !ok || host == "" || p == "" || strings.HasPrefix(p, "/") || strings.ContainsAny(host, "/ ") || strings.ContainsAny(s, " \t\n") {
		return fmt.Errorf("invalid git URL; expected https://host/path or host:path")
	}
	return nil
}

// isSCP reports whether a git URL is in the scp form.
func isSCP(s string) bool { return !strings.Contains(s, "://") }

// checkRelPath accepts a clean relative path with forward slashes that stays
// inside its root.
func checkRelPath(p string) (hint string, err error) {
	switch {
	case p == "":
		return "", fmt.Errorf("expected a path, got an empty string")
	case strings.ContainsAny(p, "\x00\n\r"):
		return "", fmt.Errorf("%q: control characters are not allowed in a path", p)
	case path.IsAbs(p) || (len(p) > 1 && p[1] == ':'):
		return "write it relative to the folder of this file", fmt.Errorf("%q is an absolute path", p)
	case strings.Contains(p, `\`):
		return fmt.Sprintf("write %q", strings.ReplaceAll(p, `\`, "/")), fmt.Errorf("%q has a backslash; expected forward slashes", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		return "copy the file into the kernel's folder", fmt.Errorf("%q has a \"..\"; paths stay inside the kernel's folder", p)
	}
	return "", nil
}

// checkBranch is the part of git's rules for a branch name that people trip
// over.
func checkBranch(s string) error {
	bad := strings.ContainsAny(s, " ~^:?*[\\\x7f") || strings.Contains(s, "..") || strings.Contains(s, "@{") ||
		strings.Contains(s, "//") || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") ||
		strings.HasSuffix(s, "/") || strings.HasSuffix(s, ".") || strings.HasSuffix(s, ".lock")
	for _, c := range s {
		bad = bad || c < ' '
	}
	if bad {
		return fmt.Errorf("%q is not a valid branch name", s)
	}
	return nil
}

// isHeader reports whether a source is only included by others.
func isHeader(p string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tcc", ".def"}, path.Ext(p))
}
