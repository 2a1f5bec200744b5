package matrix

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// maxGitHubJobs is the most jobs that one GitHub matrix can have.
const maxGitHubJobs = 256

// record is a variant as programs read it.
type record struct {
	Kernel     string            `json:"kernel"`
	Variant    string            `json:"variant"`
	Framework  string            `json:"framework"`
	Torch      string            `json:"torch,omitempty"`
	Backend    string            `json:"backend"`
	Compute    string            `json:"compute"`
	Arch       string            `json:"arch,omitempty"`
	OS         string            `json:"os,omitempty"`
	Status     Status            `json:"status"`
	Components []componentRecord `json:"components"`
	Buildable  bool              `json:"buildable"`
	Reason     string            `json:"reason,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
}

type componentRecord struct {
	Section string   `json:"section"`
	Archs   []string `json:"archs,omitempty"`
	Dropped []string `json:"dropped,omitempty"`
}

func newRecord(v Variant) record {
	r := record{
		Kernel: v.Kernel.General.Name, Variant: v.Name.String(), Framework: string(v.Name.Framework),
		Backend: string(v.Compute.Backend), Compute: v.Compute.String(), Arch: string(v.Platform.Arch), OS: string(v.Platform.OS),
		Status: v.Status, Components: []componentRecord{}, Buildable: v.Buildable, Reason: v.Reason, Notes: v.allNotes(),
	}
	if !v.Torch.IsZero() {
		r.Torch = v.Torch.String()
	}
	for _, c := range v.Components {
		r.Components = append(r.Components, componentRecord{c.Section.Name, c.Archs, c.Dropped})
	}
	return r
}

func (v Variant) allNotes() []string {
	if v.Note == "" {
		return v.Notes
	}
	return append(v.Notes[:len(v.Notes):len(v.Notes)], v.Note)
}

// Table writes the variants for a person: one line each, then the required
// builds that are missing.
func Table(w io.Writer, vs []Variant, missing []Missing) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "VARIANT\tSTATUS\tTORCH\tARCHS\tHERE")
	buildable := 0
	for _, v := range vs {
		torch, here := "-", "yes"
		if !v.Torch.IsZero() {
			torch = v.Torch.String()
		}
		if v.Buildable {
			buildable++
		} else {
			here = "no: " + v.Reason
		}
		for _, n := range v.allNotes() {
			here += "; note: " + n
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", v.Name, v.Status, torch, archColumn(v), here)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d variants, %d of them can be built here\n", len(vs), buildable)
	if len(missing) > 0 {
		fmt.Fprintf(w, "\n%d required builds are missing:\n", len(missing))
		tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, m := range missing {
			fmt.Fprintf(tw, "  %s\t%s\n", m.Name, m.Reason)
		}
		return tw.Flush()
	}
	return nil
}

// archColumn joins the architectures of all components, each once.
func archColumn(v Variant) string {
	seen := map[string]bool{}
	var out []string
	for _, c := range v.Components {
		for _, a := range c.Archs {
			if !seen[a] {
				seen[a] = true
				out = append(out, a)
			}
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, " ")
}

// JSON writes {"variants": [...], "missing": [...]} for programs, indented.
func JSON(w io.Writer, vs []Variant, missing []Missing) error {
	doc := struct {
		Variants []record  `json:"variants"`
		Missing  []Missing `json:"missing"`
	}{[]record{}, missing}
	for _, v := range vs {
		doc.Variants = append(doc.Variants, newRecord(v))
	}
	if doc.Missing == nil {
		doc.Missing = []Missing{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// gitHubJob is one element of a GitHub Actions matrix. Every value is a
// string or a boolean, which expressions of a workflow can compare.
type gitHubJob struct {
	Kernel  string `json:"kernel"`
	Variant string `json:"variant"`
	Torch   string `json:"torch"`
	Backend string `json:"backend"`
	Compute string `json:"compute"`
	Arch    string `json:"arch"`
	OS      string `json:"os"`
	Status  Status `json:"status"`
	RunsOn  string `json:"runs-on"`
}

// GitHub writes {"include":[...]} on one line, as `strategy.matrix` takes it
// from a step's output. Variants that no runner of the kinds used here can
// build stay in the list, since the job's host need not be this one; more
// than GitHub's limit of 256 jobs is an error.
func GitHub(w io.Writer, vs []Variant) error {
	if len(vs) > maxGitHubJobs {
		return fmt.Errorf("%d variants: a GitHub matrix has at most %d jobs; select with --variant or --shard", len(vs), maxGitHubJobs)
	}
	doc := struct {
		Include []gitHubJob `json:"include"`
	}{[]gitHubJob{}}
	for _, v := range vs {
		j := gitHubJob{
			Kernel: v.Kernel.General.Name, Variant: v.Name.String(), Backend: string(v.Compute.Backend), Compute: v.Compute.String(),
			Arch: string(v.Platform.Arch), OS: string(v.Platform.OS), Status: v.Status, RunsOn: runsOn(v),
		}
		if !v.Torch.IsZero() {
			j.Torch = v.Torch.String()
		}
		doc.Include = append(doc.Include, j)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// gitHubShard is one job that builds several variants.
type gitHubShard struct {
	Shard    string `json:"shard"`
	Kernel   string `json:"kernel"`
	Variants string `json:"variants"` // as --variant takes them
	Seconds  int    `json:"seconds"`  // estimated, of one core
	RunsOn   string `json:"runs-on"`
}

// GitHubShards writes {"include":[...]} with one job for each shard that has
// variants. The estimate is there to be looked at; nothing depends on it.
func GitHubShards(w io.Writer, shards [][]Variant, seconds []float64) error {
	if len(shards) > maxGitHubJobs {
		return fmt.Errorf("%d shards: a GitHub matrix has at most %d jobs", len(shards), maxGitHubJobs)
	}
	doc := struct {
		Include []gitHubShard `json:"include"`
	}{[]gitHubShard{}}
	for i, vs := range shards {
		if len(vs) == 0 {
			continue
		}
		names := make([]string, len(vs))
		for j, v := range vs {
			names[j] = v.Name.String()
		}
		doc.Include = append(doc.Include, gitHubShard{
			Shard: Shard{i + 1, len(shards)}.String(), Kernel: vs[0].Kernel.General.Name,
			Variants: strings.Join(names, ","), Seconds: int(math.Ceil(seconds[i])), RunsOn: runsOn(vs[0]),
		})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// runsOn is the runner that builds a variant: x86_64 Linux for all but Apple's,
// since the aarch64 ones are cross-compiled.
func runsOn(v Variant) string {
	if v.Platform.OS == "darwin" {
		return "macos-26"
	}
	return "ubuntu-latest"
}
