package abicheck

import (
	"debug/elf"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

// What kernel-builder checks where nothing else is said.
const defaultManylinux = "manylinux_2_28"

var defaultPython = manifests.Version{Major: 3, Minor: 9}

// claim is what a package says about the files inside.
type claim struct {
	from    string
	variant *manifests.VariantName
	wheel   *wheelTags
}

// wheelTags are the parts of a wheel's name that make promises.
type wheelTags struct {
	python    manifests.Version // of the oldest cpXY tag
	abi3      bool
	manylinux string // the oldest policy named, empty for none
	macos     manifests.Version
}

var (
	cpTag    = regexp.MustCompile(`^cp(\d)(\d+)$`)
	macosTag = regexp.MustCompile(`^macosx_(\d+)_(\d+)_`)
	linuxTag = regexp.MustCompile(`^(manylinux_\d+_\d+|manylinux1|manylinux2010|manylinux2014)_[a-z0-9_]+$`)
)

// parseWheelName reads the tags of NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl;
// nil when the name is not of that form.
func parseWheelName(name string) *wheelTags {
	stem, ok := strings.CutSuffix(name, ".whl")
	parts := strings.Split(stem, "-")
	if !ok || len(parts) < 5 {
		return nil
	}
	parts = parts[len(parts)-3:]
	return newWheelTags(parts[0], parts[1], parts[2])
}

// newWheelTags reads tag sets, each a list separated by dots.
func newWheelTags(python, abi, platform string) *wheelTags {
	t := &wheelTags{}
	for _, tag := range strings.Split(python, ".") {
		if m := cpTag.FindStringSubmatch(tag); m != nil {
			v, err := manifests.ParseVersion(m[1] + "." + m[2])
			if err == nil && (t.python.IsZero() || v.Compare(t.python) < 0) {
				t.python = v
			}
		}
	}
	for _, tag := range strings.Split(abi, ".") {
		t.abi3 = t.abi3 || strings.HasPrefix(tag, "abi3")
	}
	var oldest *policy.Manylinux
	for _, tag := range strings.Split(platform, ".") {
		if m := linuxTag.FindStringSubmatch(tag); m != nil {
			if p, err := policy.FindManylinux(m[1]); err == nil && (oldest == nil || p.Compare(oldest) < 0) {
				oldest, t.manylinux = p, p.Name
			}
		}
		if m := macosTag.FindStringSubmatch(tag); m != nil {
			if v, err := manifests.ParseVersion(m[1] + "." + m[2]); err == nil {
				t.macos = v
			}
		}
	}
	return t
}

// want decides what a subject has to satisfy; see rule.Want.
func want(s *rule.Subject, c claim, o *rule.Options) rule.Want {
	w := rule.Want{From: c.from, Baseline: o.Baseline}
	if v := c.variant; v != nil {
		w.Compute, w.Platform = v.Compute, v.Platform
		switch v.Framework {
		case manifests.Torch:
			w.Torch = &v.Version
		case manifests.TorchStableABI:
			w.StableABI = &v.Version
		}
	}
	if o.Torch != nil {
		w.Torch = o.Torch
	}
	if o.Compute.Backend != "" {
		w.Compute = o.Compute
	}
	if o.StableABI != nil {
		w.StableABI = o.StableABI
	}
	switch {
	case s.ELF != nil:
		w.Manylinux = defaultManylinux
		if c.wheel != nil {
			w.Manylinux = c.wheel.manylinux
		}
		if o.Manylinux != "" {
			w.Manylinux = o.Manylinux
		}
		if w.Manylinux == "none" || s.ELF.OSABI != elf.ELFOSABI_NONE && s.ELF.OSABI != elf.ELFOSABI_LINUX {
			w.Manylinux = ""
		}
	case s.MachO != nil:
		w.MacOS = manifests.Compute{}.MacOS()
		if c.wheel != nil {
			w.MacOS = c.wheel.macos
		}
		if c.variant != nil {
			w.MacOS = c.variant.Compute.MacOS()
		}
		if !o.MacOS.IsZero() {
			w.MacOS = o.MacOS
		}
	}
	w.PythonABI = pythonFloor(s, c, o)
	return w
}

// pythonFloor is the oldest Python that an extension module promises through
// the stable ABI, zero where it promises none.
func pythonFloor(s *rule.Subject, c claim, o *rule.Options) manifests.Version {
	abi3 := strings.Contains(s.Name, ".abi3.") || strings.Contains(s.Name, ".abi3t.")
	extension := abi3 || strings.Contains(s.Name, ".cpython-") || strings.HasSuffix(s.Name, ".pyd")
	switch {
	case !extension:
		return manifests.Version{}
	case !o.PythonABI.IsZero():
		return o.PythonABI
	case c.variant != nil && (abi3 || s.PE != nil):
		return defaultPython
	case c.wheel != nil && (abi3 || c.wheel.abi3 && s.PE != nil):
		if c.wheel.python.IsZero() {
			return defaultPython
		}
		return c.wheel.python
	case abi3:
		return defaultPython
	}
	return manifests.Version{}
}

// variantClaim reads the promises of a variant folder's name.
func variantClaim(dir string) claim {
	name, err := manifests.ParseVariantName(filepath.Base(dir))
	if err != nil {
		return claim{}
	}
	return claim{from: "variant " + name.String(), variant: &name}
}
