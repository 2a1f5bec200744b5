package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/manifests"
)

// maxManifest is far above any build.toml.
const maxManifest = 4 << 20

func newUpdateBuild(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "update-build [DIR]",
		Short: "Turn a kernel's build.toml of an older edition into one of edition 5",
		Long: `Update-build writes edition 5 over a kernel's build.toml of the v3 or v4 form.
It edits the text: comments, order and values stay. A file of edition 5 is not
touched, and one that is none of these is refused.`,
		Example: `  $ thoxbuild update-build
  $ thoxbuild update-build kernels-src/relu`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := g.dir
			if len(args) > 0 {
				dir = args[0]
				if !filepath.IsAbs(dir) {
					dir = filepath.Join(g.dir, dir)
				}
			}
			return updateBuild(g.streams, filepath.Join(dir, "build.toml"))
		},
	}
}

func updateBuild(s *Streams, file string) error {
	old, mode, err := readManifest(file)
	if err != nil {
		return usageError{err}
	}
	updated, err := manifests.Convert(file, old)
	if err != nil {
		return usageError{err}
	}
	if bytes.Equal(old, updated) {
		s.notef("%s is of edition 5 already", file)
		return nil
	}
	to, err := filepath.EvalSymlinks(file) // a link stays one
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(to, updated, mode, renameio.WithStaticPermissions(mode)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, file)
	return err
}

func readManifest(file string) (text []byte, mode os.FileMode, err error) {
	fi, err := os.Stat(file)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxManifest {
		return nil, 0, errors.New(file + ": expected a regular file of at most 4 MB")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, maxManifest))
	return text, fi.Mode().Perm(), err
}
