package matrix

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/thox-ai/thoxbuild/manifests"
)

//go:embed catalogue.toml
var catalogueTOML string

// Row is one torch release built for one toolkit on one platform.
type Row struct {
	Torch    manifests.Version
	Compute  manifests.Compute
	Platform manifests.Platform
	Status   Status
	// TVMFFI is the tvm-ffi release that tvm-ffi kernels are built for with
	// this row; zero when they are not.
	TVMFFI manifests.Version
	Source Source
	// Note is what else is known, such as a build that is broken upstream.
	Note string
}

// Name is the name of the row's torch variant.
func (r Row) Name() manifests.VariantName {
	return manifests.VariantName{Framework: manifests.Torch, Version: r.Torch, Compute: r.Compute, Platform: r.Platform}
}

// Source says where a row comes from and when it was looked up.
type Source struct {
	What string
	Date string // as in "2026-08-20"
}

// Catalogue is everything that this package knows about the world.
type Catalogue struct {
	// Rows are sorted by torch, backend, toolkit and platform.
	Rows []Row

	capabilities []capabilityList
	rocmArchs    []string
}

type capabilityList struct {
	since manifests.Version
	list  []string
}

// catalogueFile is the layout of catalogue.toml.
type catalogueFile struct {
	Source map[string]struct {
		What string    `toml:"what"`
		Date time.Time `toml:"date"`
	} `toml:"source"`
	Capabilities []struct {
		Since  manifests.Version `toml:"since"`
		List   []string          `toml:"list"`
		Source string            `toml:"source"`
	} `toml:"capabilities"`
	ROCmArchs struct {
		List   []string `toml:"list"`
		Source string   `toml:"source"`
	} `toml:"rocm-archs"`
	Row []struct {
		Torch     manifests.Version `toml:"torch"`
		Backend   manifests.Backend `toml:"backend"`
		Version   manifests.Version `toml:"version"`
		Platforms []string          `toml:"platforms"`
		TVMFFI    manifests.Version `toml:"tvm-ffi"`
		Status    Status            `toml:"status"`
		Source    string            `toml:"source"`
		Note      string            `toml:"note"`
	} `toml:"row"`
}

// Default returns the catalogue that this program was built with. The value
// is shared: don't change it.
var Default = sync.OnceValue(func() *Catalogue {
	c, err := parseCatalogue(catalogueTOML)
	if err != nil {
		panic("matrix: the embedded catalogue: " + err.Error()) // held by a test
	}
	return c
})

func parseCatalogue(text string) (*Catalogue, error) {
	var f catalogueFile
	md, err := toml.Decode(text, &f)
	if err != nil {
		return nil, err
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return nil, fmt.Errorf("unknown key %v", extra[0])
	}
	c := &Catalogue{rocmArchs: f.ROCmArchs.List}
	for _, l := range f.Capabilities {
		c.capabilities = append(c.capabilities, capabilityList{l.Since, l.List})
	}
	slices.SortFunc(c.capabilities, func(a, b capabilityList) int { return a.since.Compare(b.since) })
	for i, r := range f.Row {
		src, ok := f.Source[r.Source]
		if !ok {
			return nil, fmt.Errorf("row %d: unknown source %q", i, r.Source)
		}
		if !slices.Contains([]Status{Required, Official, Extra}, r.Status) {
			return nil, fmt.Errorf("row %d: unknown status %q", i, r.Status)
		}
		for _, p := range r.Platforms {
			arch, os, _ := strings.Cut(p, "-")
			row := Row{
				Torch: r.Torch, Compute: manifests.Compute{Backend: r.Backend, Version: r.Version},
				Platform: manifests.Platform{Arch: manifests.Arch(arch), OS: manifests.OS(os)},
				Status:   r.Status, TVMFFI: r.TVMFFI, Note: r.Note,
				Source: Source{src.What, src.Date.Format(time.DateOnly)},
			}
			if err := row.Name().Validate(); err != nil {
				return nil, fmt.Errorf("row %d: %w", i, err)
			}
			c.Rows = append(c.Rows, row)
		}
	}
	slices.SortFunc(c.Rows, func(a, b Row) int { return compareNames(a.Name(), b.Name()) })
	for i := 1; i < len(c.Rows); i++ {
		if c.Rows[i].Name() == c.Rows[i-1].Name() {
			return nil, fmt.Errorf("two rows are named %s", c.Rows[i].Name())
		}
	}
	return c, nil
}

// Torches lists the torch releases of the catalogue, oldest first.
func (c *Catalogue) Torches() []manifests.Version {
	var out []manifests.Version
	for _, r := range c.Rows {
		if !slices.Contains(out, r.Torch) {
			out = append(out, r.Torch)
		}
	}
	return out
}

// RequiredNames lists the names that the Hub requires, sorted as text.
func (c *Catalogue) RequiredNames() []string {
	var out []string
	for _, r := range c.Rows {
		if r.Status == Required {
			out = append(out, r.Name().String())
		}
	}
	slices.Sort(out)
	return out
}

// Capabilities lists what the compiler of a CUDA release builds for when a
// kernel names nothing, "+PTX" included.
func (c *Catalogue) Capabilities(cuda manifests.Version) []string {
	var best []string
	for _, l := range c.capabilities {
		if l.since.Compare(cuda) <= 0 {
			best = l.list
		}
	}
	return best
}
