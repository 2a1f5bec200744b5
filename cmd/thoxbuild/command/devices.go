package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/facts"
)

// cudaDevices lists what a library has device code for, as metadata.json
// spells it: machine code and PTX of one architecture are one "9.0+PTX".
func cudaDevices(library string) ([]string, error) {
	f, err := os.Open(library)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	e, err := elffile.New(f, fi.Size())
	if err != nil {
		return nil, err
	}
	entries, err := facts.FatbinArchs(e)
	if errors.Is(err, facts.ErrNoDeviceCode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the device code: %w", err)
	}
	ptx := map[string]bool{}
	for _, e := range entries {
		ptx[e.Capability()] = true
	}
	var out []string
	for _, e := range entries {
		if name := e.Capability(); e.PTX || !ptx[name+"+PTX"] {
			if len(out) == 0 || out[len(out)-1] != name {
				out = append(out, name)
			}
		}
	}
	return out, nil
}
