package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/manifests"
)

var cardVariable = regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`)

// renderCard fills in the kernel's CARD.md and writes it beside the variants,
// from where a publish takes it. The template language is the variables of
// kernel-builder's cards ({{ repo_id }}, {{ version }}, ...); its loops and
// conditions are refused rather than published as text. Without a CARD.md
// nothing is written.
func renderCard(k *manifests.Kernel, repo, out string) error {
	src := filepath.Join(k.Dir, "CARD.md")
	text, err := os.ReadFile(src)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	card, err := fillCard(text, map[string]string{
		"repo_id": repo, "version": fmt.Sprint(k.General.Version), "license": strings.ToLower(k.General.License),
		"upstream": k.General.Upstream, "source": k.General.Source,
	})
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", src, err)}
	}
	if _, err := os.Stat(out); err != nil {
		return nil // nothing is built; the publish itself says so
	}
	to := filepath.Join(out, "CARD.md")
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, card) {
		return nil
	}
	return renameio.WriteFile(to, card, 0o644)
}

func fillCard(text []byte, values map[string]string) ([]byte, error) {
	line := func(at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }
	if at := bytes.Index(text, []byte("{%")); at >= 0 {
		return nil, fmt.Errorf("line %d: blocks ({%% ... %%}) are not supported in a card; write the text out", line(at))
	}
	var out bytes.Buffer
	last := 0
	for _, m := range cardVariable.FindAllSubmatchIndex(text, -1) {
		name := string(text[m[2]:m[3]])
		v, ok := values[name]
		if !ok {
			return nil, fmt.Errorf("line %d: unknown variable %q; a card knows %s", line(m[0]), name, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
		out.Write(text[last:m[0]])
		out.WriteString(v)
		last = m[1]
	}
	out.Write(text[last:])
	return out.Bytes(), nil
}
