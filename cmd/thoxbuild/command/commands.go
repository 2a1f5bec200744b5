package command

import "github.com/spf13/cobra"

// commands lists every verb in the order of a kernel's life.
func commands(g *globals) []*cobra.Command {
	return []*cobra.Command{
		newUpdateBuild(g), newMatrix(g), newToolchain(g), newDoctor(g), newBuild(g), newExplain(g), newAbicheck(g),
		newSign(g), newPublish(g), newLock(g), newPull(g), newVerify(g), newHub(g),
	}
}
