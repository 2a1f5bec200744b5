package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/manifests"
)

// table lists what lies in build/: the size of each library, the devices that
// were read back from it, what abicheck says, and the processor seconds that
// the variant's actions took when they ran last.
func table(ctx context.Context, _ string) error {
	p, err := manifests.Load(*dir)
	if err != nil {
		return err
	}
	h := compile.OpenHistory(filepath.Join(*store, "cache"), p.Kernels[0].Dir)
	found, err := filepath.Glob(filepath.Join(*dir, "build", "*", "metadata.json"))
	if err != nil {
		return err
	}
	fmt.Println("| variant | library, kB | devices in the library | abicheck | processor s |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	for _, file := range found {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		m, err := manifests.ParseMetadata(b)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		at := filepath.Dir(file)
		size := int64(0)
		libs, _ := filepath.Glob(filepath.Join(at, "*.so"))
		for _, l := range libs {
			if fi, err := os.Stat(l); err == nil {
				size += fi.Size()
			}
		}
		verdict, err := abicheck(ctx, at)
		if err != nil {
			return err
		}
		cost := 0.0
		for _, part := range h.Parts(filepath.Base(at)) {
			cost += part.Seconds
		}
		archs := strings.Join(m.Backend.Archs, " ")
		if archs == "" {
			archs = "-"
		}
		fmt.Printf("| %s | %.0f | %s | %s | %.1f |\n", filepath.Base(at), float64(size)/1e3, archs, verdict, cost)
	}
	fmt.Printf("\n%d variants\n", len(found))
	return nil
}

// abicheck counts the findings by level.
func abicheck(ctx context.Context, at string) (string, error) {
	cmd := exec.CommandContext(ctx, *thoxbuild, "abicheck", "--format", "json", at)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) {
		return "", fmt.Errorf("abicheck %s: %w", at, err)
	}
	var doc struct {
		Findings []struct {
			Severity string `json:"severity"`
			ID       string `json:"id"`
		} `json:"findings"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return "", fmt.Errorf("abicheck %s: %w", at, err)
	}
	bad := map[string]bool{}
	for _, f := range doc.Findings {
		if f.Severity != "note" && f.Severity != "info" {
			bad[f.Severity+" "+f.ID] = true
		}
	}
	if len(bad) == 0 {
		return "ok", nil
	}
	var list []string
	for b := range bad {
		list = append(list, b)
	}
	return strings.Join(list, ", "), nil
}
