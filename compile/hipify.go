package compile

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/matrix"
)

// hipify plans the step that turns a .cu source and the kernel's headers that
// it reads into HIP, and returns what the compiler is given in their place. The
// headers keep their names; C++ files that share them see them as they are. A
// header that is HIP already comes out unchanged.
func (p *Plan) hipify(v matrix.Variant, ts *Toolset, u *unit, inputs []input) (src string, out []input, err error) {
	tool := ts.Device.Hipify
	if tool == nil {
		return "", nil, fmt.Errorf("%s: nothing converts CUDA sources here; write it as .hip", u.src)
	}
	a := &Action{
		Kind:     KindConvert,
		Label:    fmt.Sprintf("hipify %s (%s)", u.src, v.Compute),
		args:     slices.Clone(tool.Args),
		env:      baseEnv(tool.Env),
		platform: platformOf(v, *tool),
	}
	var places []string
	for _, in := range inputs {
		if in.from != nil || in.path == registrationPath || in.path == modulePath {
			out = append(out, in) // generated, and the same for every backend
			continue
		}
		place := in.path
		if source.KindOf(place) == source.CUDA {
			place = strings.TrimSuffix(place, path.Ext(place)) + ".hip"
		}
		a.args = append(a.args, in.path)
		a.inputs = append(a.inputs, in)
		a.outputs = append(a.outputs, "hip/"+place)
		places = append(places, place)
		if in.path == u.src {
			src = place
		}
	}
	if a, err = p.add(a, v.Name.String()); err != nil {
		return "", nil, err
	}
	for _, place := range places {
		out = append(out, input{path: place, from: a, output: "hip/" + place})
	}
	return src, out, nil
}
