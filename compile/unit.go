package compile

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/glue"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// unit is one source as one variant compiles it. The extension's name is left
// open, for it is a digest over everything else.
type unit struct {
	section  string // "torch" for the binding
	src      string
	kind     source.Kind
	reads    source.Unit
	inputs   []input // of what it reads; shared, so they are not to be changed
	include  []string
	flags    []string // the manifest's
	archs    []string // device capabilities
	depends  []string
	isa      bool
	isaEntry []string
	isolate  bool
	// extra are generated files that the unit reads beside its own.
	extra []input
}

// role says what the unit's object is to the library.
func (u *unit) role() Role {
	switch {
	case u.isa:
		return RoleISA
	case u.kind == source.CUDA || u.kind == source.HIP:
		return RoleDevice
	case u.section == bindingSection:
		return RoleBinding
	default:
		return RoleHost
	}
}

// bindingSection is what the units of [torch] are listed under.
const bindingSection = "torch"

// units lists what a variant compiles, in the order of the manifest.
func (p *Plan) units(t *tree, v matrix.Variant) ([]*unit, error) {
	k := p.cfg.Kernel
	var us []*unit
	add := func(u unit, table, name string, src []string) error {
		for i, rel := range src {
			rel = path.Clean(rel)
			kind := source.KindOf(rel)
			if kind == source.NotCompiled || kind == source.Metal {
				continue
			}
			one := u
			one.section, one.src, one.kind = name, rel, kind
			c := p.closure(t, rel, includeDirs(u.include))
			one.reads, one.inputs = c.reads, slices.Clip(c.inputs)
			if err := noPlaces(c.reads); err != nil {
				return err
			}
			if one.kind == source.HIP || one.kind == source.CUDA || one.kind == source.CXX || one.kind == source.C || v.Platform.OS == manifests.Darwin {
				us = append(us, &one)
				continue
			}
			return fmt.Errorf("%v: %s: Objective-C sources need a darwin variant", k.Pos(fmt.Sprintf("%s.src[%d]", table, i)), rel)
		}
		return nil
	}
	if b := k.Torch; b != nil {
		if err := checkFlags(b.CxxFlags); err != nil {
			return nil, &ConfigError{fmt.Errorf("%v: %w", k.Pos("torch.cxx-flags"), err)}
		}
		if err := add(unit{include: b.Include, flags: b.CxxFlags}, "torch", bindingSection, b.Src); err != nil {
			return nil, err
		}
	}
	for _, c := range v.Components {
		s := c.Section
		table := manifests.KeyPath("kernel", s.Name)
		u := unit{include: s.Include, flags: s.CxxFlags, archs: c.Archs, depends: s.Depends}
		if arch, ok := sectionArch(s); ok {
			if arch != v.Platform.Arch {
				continue // a unit for another processor; its dispatcher leaves it out there
			}
			u.isa = true
		}
		if p.cfg.Workspace != nil {
			if decl, ok := p.cfg.Workspace.ISAUnit(k.General.Name, s.Name); ok {
				u.isa, u.isaEntry, u.isolate = true, decl.Entries, decl.Isolate
			}
		}
		if err := checkFlags(slices.Concat(s.CxxFlags, s.CUDAFlags, s.HIPFlags, s.SYCLFlags)); err != nil {
			return nil, &ConfigError{fmt.Errorf("%v: %w", k.Pos(table), err)}
		}
		if err := add(u, table, s.Name, s.Src); err != nil {
			return nil, err
		}
	}
	return us, nil
}

// noPlaces refuses a header that is named by its place on this machine: a build
// would take it without knowing when it changes, and elsewhere it is not there.
// One that is not there at all may stand in a branch for other systems.
func noPlaces(u source.Unit) error {
	for _, m := range u.Absolute {
		if _, err := os.Stat(m.Path); err == nil {
			return configf("%s:%d: includes %q, which is no file of the kernel; put it into the kernel's folder, list it in the src of the section and include it from there", m.From, m.Line, m.Path)
		}
	}
	return nil
}

// includeDirs are the folders that a unit's compiler looks in. csrc is always
// one of them, as in the reference tool.
func includeDirs(include []string) []string {
	dirs := make([]string, 0, len(include)+1)
	for _, d := range append(slices.Clone(include), "csrc") {
		if d = path.Clean(d); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// object is where a unit's object lies in the tree of whoever reads it.
func (u *unit) object() string { return "obj/" + u.section + "/" + u.src + ".o" }

// compileUnit plans the action that compiles a unit under an extension name.
func (p *Plan) compileUnit(t *tree, v matrix.Variant, ts *Toolset, u *unit, ops string) (*Action, error) {
	if u.kind == source.CUDA || u.kind == source.HIP || u.kind == source.CXX && u.section != bindingSection && ts.Device != nil && ts.Device.Dialect == ICPX {
		return p.compileDevice(t, v, ts, u, ops)
	}
	tool := ts.CXX
	if (u.kind == source.ObjCXX || u.kind == source.ObjC) && ts.Metal != nil {
		tool = ts.Metal.Host
	}
	tool, err := p.withHeaders(tool, v, ts, u)
	if err != nil {
		return nil, err
	}
	args := slices.Clone(tool.Args)
	if u.kind != source.C && u.kind != source.ObjC {
		args = append(args, cxxStandard(ts, u.reads.Torch))
	}
	args = append(args, "-O3", "-DNDEBUG", "-fPIC")
	if !u.reads.Torch {
		// Nothing of torch's is inline in it, so hiding all cannot tear a
		// shared type or static apart.
		args = append(args, "-fvisibility=hidden")
	}
	args = append(args, p.defines(v, u, ops)...)
	for _, d := range p.existingDirs(t, u) {
		args = append(args, "-I"+d)
	}
	if len(u.extra) > 0 {
		args = append(args, "-I.")
	}
	for _, f := range u.flags {
		if f != gccOnly {
			args = append(args, hostFlag(tool, f))
		}
	}
	args = append(args, "-c", u.src, "-o", objectOut)
	return p.add(&Action{
		Kind:     KindCompile,
		Label:    fmt.Sprintf("compile %s (%s)", u.src, p.where(v, u)),
		args:     args,
		env:      baseEnv(tool.Env),
		outputs:  []string{objectOut},
		platform: platformOf(v, tool),
		inputs:   append(u.inputs, u.extra...),
		missing:  missingNames(u.reads),
	}, v.Name.String())
}

// objectOut is where every compile writes. It is the same for all, so that a
// unit's key does not depend on the section that lists it.
const objectOut = "out.o"

// gccOnly turns off a kind of symbol that only GCC makes; other compilers
// refuse the flag.
const gccOnly = "-fno-gnu-unique"

// withHeaders adds the header folders that a unit may see.
func (p *Plan) withHeaders(tool Tool, v matrix.Variant, ts *Toolset, u *unit) (Tool, error) {
	if v.Compute.Backend != manifests.CPU {
		tool = tool.with(ts.DeviceHost)
	}
	for _, d := range u.depends {
		if d == "torch" {
			continue
		}
		h, ok := ts.Dependencies[d]
		if !ok {
			return Tool{}, fmt.Errorf("%v: section %q depends on %q, which thoxbuild does not provide yet; add its headers to the kernel and an include folder", p.cfg.Kernel.Pos(manifests.KeyPath("kernel", u.section, "depends")), u.section, d)
		}
		tool = tool.with(&h)
	}
	if u.reads.Torch {
		tool = tool.with(&ts.Torch)
	}
	if u.reads.Python {
		tool = tool.with(ts.Python)
	}
	return tool, nil
}

// defines are the macros of a unit.
func (p *Plan) defines(v matrix.Variant, u *unit, ops string) []string {
	d := backendDefines(v.Compute.Backend)
	if u.reads.Torch {
		d = append(d, torchDefines(v)...)
	}
	if u.reads.Name != source.NameUnused {
		d = append(d, nameDefines(ops)...)
	}
	if len(u.extra) > 0 {
		d = append(d, metalDefines(ops)...)
	}
	return d
}

// existingDirs leaves out folders that hold no declared file: the private tree
// does not have them.
func (p *Plan) existingDirs(t *tree, u *unit) []string {
	var out []string
	for _, d := range includeDirs(u.include) {
		for _, f := range u.reads.Files {
			if d == "." || strings.HasPrefix(f, d+"/") {
				out = append(out, d)
				break
			}
		}
	}
	return out
}

// where names the variant, as far as it matters, in an action's label.
func (p *Plan) where(v matrix.Variant, u *unit) string {
	var parts []string
	if u.section != bindingSection {
		parts = append(parts, u.section)
	}
	if u.reads.Torch {
		parts = append(parts, string(v.Name.Framework)+v.Name.Version.Tag())
	}
	return strings.Join(append(parts, v.Compute.String(), string(v.Platform.Arch)), " ")
}

func missingNames(u source.Unit) []string {
	var out []string
	for _, m := range u.Missing {
		out = append(out, fmt.Sprintf("%s:%d: %s", m.From, m.Line, m.Path))
	}
	return out
}

// nameUnit plans the unit that defines the extension's name.
func (p *Plan) nameUnit(v matrix.Variant, ts *Toolset, ops string) (*Action, error) {
	tool := ts.CXX
	args := append(slices.Clone(tool.Args), "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-c", "name.cpp", "-o", objectOut)
	return p.add(&Action{
		Kind:     KindCompile,
		Label:    fmt.Sprintf("compile the name of %s", v.Name),
		args:     args,
		env:      baseEnv(tool.Env),
		outputs:  []string{objectOut},
		platform: platformOf(v, tool),
		inputs: []input{
			p.generated("name.cpp", glue.NameUnit(ops)),
			p.generated("thoxbuild_module.h", glue.Module),
		},
	}, v.Name.String())
}
