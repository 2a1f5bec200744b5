package compile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/manifests"
)

// devicesOut is where the devices of a library are kept.
const devicesOut = "devices.json"

// readDevices plans the step that reads out of a CUDA library which devices
// it has code for. What the metadata claims is what is in the file, for flags
// of the manifest may add to the plan.
func (p *Plan) readDevices(vp *variantPlan) error {
	if p.cfg.Devices == nil || vp.variant.Compute.Backend != manifests.CUDA {
		return nil
	}
	planned := p.archs(vp.variant)
	var err error
	vp.devices, err = p.add(&Action{
		Kind:     KindCheck,
		Label:    "read the devices of " + vp.name,
		args:     append([]string{"thoxbuild", "read-devices"}, planned...),
		outputs:  []string{devicesOut},
		platform: map[string]string{"thoxbuild": "devices 1"},
		inputs:   []input{{path: "lib.so", from: vp.library, output: libraryOut}},
		inProcess: func(_ context.Context, s *stepEnv) (*action.Result, error) {
			file, err := s.path("lib.so")
			if err != nil {
				return nil, err
			}
			devices, err := p.cfg.Devices(file)
			if err != nil {
				return nil, err
			}
			if err := holdsPlanned(devices, planned); err != nil {
				return nil, err
			}
			text, err := json.Marshal(devices)
			if err != nil {
				return nil, err
			}
			return s.write(devicesOut, text)
		},
	}, vp.name)
	if err == nil {
		vp.last = append(vp.last, vp.devices)
	}
	return err
}

// holdsPlanned compares what a library holds with what its sections were
// compiled for. A kernel without device code holds nothing, whatever its
// sections list.
func holdsPlanned(devices, planned []string) error {
	if len(devices) == 0 {
		return nil
	}
	have := map[string]bool{}
	for _, d := range devices {
		base, _ := strings.CutSuffix(d, "+PTX")
		have[d], have[base] = true, true
	}
	var lost []string
	for _, a := range planned {
		if !have[a] {
			lost = append(lost, a)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("the library has no code for %s, which its sections were compiled for; it has %s", strings.Join(lost, ", "), strings.Join(devices, ", "))
	}
	return nil
}

// devicesOf are the devices that a variant's library was found to hold, sorted
// as text; ok is false where nothing was read.
func (vp *variantPlan) devicesOf(results []*action.Result, open func(action.Digest) (io.ReadCloser, error)) (archs []string, ok bool, err error) {
	if vp.devices == nil {
		return nil, false, nil
	}
	out, ok := results[vp.devices.index].Output(devicesOut)
	if !ok {
		return nil, false, fmt.Errorf("%s has no result", vp.devices.Label)
	}
	r, err := open(out.Digest)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&archs); err != nil {
		return nil, false, err
	}
	slices.Sort(archs)
	return archs, true, nil
}
