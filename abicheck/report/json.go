package report

import (
	"encoding/json"
	"io"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// document is the JSON form. Version changes when a field changes its meaning
// or goes away; new fields may come at any time.
type document struct {
	Version int            `json:"version"`
	Failed  bool           `json:"failed"`
	Counts  map[string]int `json:"counts"`
	*Report
}

// JSON writes the whole report as one document.
func (r *Report) JSON(w io.Writer) error {
	d := document{Version: 1, Failed: r.Failed(), Report: r, Counts: map[string]int{"suppressed": len(r.Suppressed)}}
	for _, s := range []rule.Severity{rule.Note, rule.Warning, rule.Error} {
		d.Counts[s.String()] = r.Count(s)
	}
	if r.Findings == nil {
		r.Findings = []rule.Finding{}
	}
	if r.Files == nil {
		r.Files = []File{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}
