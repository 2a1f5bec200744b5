package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/manifests"
)

// abiGate refuses a bundle in which abicheck finds an error. It says what was
// found in each variant now, and what its build found with the roles of the
// objects known.
func abiGate(s *Streams) publish.Gate {
	return func(ctx context.Context, b *bundle.Bundle) error {
		var text bytes.Buffer
		for _, v := range b.Variants {
			r, err := abicheck.Check(ctx, []string{v.Dir}, &abicheck.Options{})
			if err != nil {
				return err
			}
			built, err := builtReport(b, v)
			if err != nil {
				return err
			}
			line := "abicheck " + v.Name + ": " + r.Summary()
			if built != nil {
				line += "; as built: " + builtSummary(built.report)
			} else if len(r.Files) > 1 { // more than the variant itself
				line += "; no report of this build"
			}
			s.notef("%s", line)
			if r.Failed() {
				if err := r.Text(&text, report.TextOptions{}); err != nil {
					return err
				}
			}
		}
		if text.Len() > 0 {
			return fmt.Errorf("abicheck found errors\n%s", text.String())
		}
		return nil
	}
}

// stored is the report of a build with its bytes.
type stored struct {
	report *compile.CheckReport
	bytes  []byte
}

// builtReport reads what the build of a variant left beside it; nil if there
// is nothing, or if it is about other files.
func builtReport(b *bundle.Bundle, v *bundle.Variant) (*stored, error) {
	r, data, err := compile.ReadReport(b.Root, v.Name)
	if err != nil {
		return nil, withHint(err, "build the variant again, or remove the file")
	}
	metadata, err := os.ReadFile(filepath.Join(v.Dir, manifests.MetadataFile))
	if err != nil || r == nil || !r.About(metadata) {
		return nil, err
	}
	return &stored{r, data}, nil
}

// builtSummary adds up the two checks of a build.
func builtSummary(r *compile.CheckReport) string {
	type doc struct {
		Counts map[string]int    `json:"counts"`
		Files  []json.RawMessage `json:"files"`
	}
	var objects, library doc
	if json.Unmarshal(r.Objects, &objects) != nil || json.Unmarshal(r.Library, &library) != nil {
		return "not readable"
	}
	n := func(what string) string { return counted(objects.Counts[what]+library.Counts[what], what) }
	return fmt.Sprintf("%s and the library: %s, %s, %s", counted(len(objects.Files), "object"), n("error"), n("warning"), n("note"))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// abiReport is the report about a variant that a registry keeps: the stored
// one, else what a check finds now.
func abiReport(ctx context.Context, b *bundle.Bundle, v *bundle.Variant) ([]byte, error) {
	built, err := builtReport(b, v)
	if err != nil {
		return nil, err
	}
	if built != nil {
		return built.bytes, nil
	}
	r, err := abicheck.Check(ctx, []string{v.Dir}, &abicheck.Options{})
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := r.JSON(&text); err != nil {
		return nil, err
	}
	// The report speaks of the variant, not of the machine it lay on.
	return bytes.ReplaceAll(text.Bytes(), []byte(v.Dir), []byte(v.Name)), nil
}
