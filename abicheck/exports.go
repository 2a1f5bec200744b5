package abicheck

import (
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain/torchexports"
)

// shippedExports finds a torch release's exports in the tables that thoxbuild
// carries: those of the CPU and CUDA builds. For another backend there is none,
// and the rules that need one are left out.
func shippedExports(torch manifests.Version, compute manifests.Compute, platform manifests.Platform) (rule.SymbolSet, error) {
	e, err := torchexports.Find(torch, compute, platform)
	if e == nil || err != nil {
		return nil, err // an untyped nil, which callers can see
	}
	return e, nil
}
