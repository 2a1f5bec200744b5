package command

import (
	"slices"

	"github.com/spf13/cobra"
)

// commands lists every verb in the order of a kernel's life.
func commands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newMatrix(g), newToolchain(g), newDoctor(g), newBuild(g), newExplain(g), newAbicheck(g),
		newSign(g), newPublish(g), newLock(g), newPull(g), newVerify(g), newHub(g),
	}
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
