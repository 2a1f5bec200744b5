package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// The parts of SARIF 2.1.0 (OASIS standard, sections 3.13 to 3.30) that a
// report of binaries needs.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
		FullDescription  sarifText `json:"fullDescription"`
		Help             sarifText `json:"help"`
		Default          struct {
			Level string `json:"level"`
		} `json:"defaultConfiguration"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Address  *sarifAddress `json:"address,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifAddress struct {
		Absolute *uint64 `json:"absoluteAddress,omitempty"`
		Relative *uint64 `json:"relativeAddress,omitempty"`
		Name     string  `json:"name,omitempty"`
	}
	sarifLogical struct {
		Name          string `json:"name"`
		FullyQualifed string `json:"fullyQualifiedName,omitempty"`
		Kind          string `json:"kind"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
)

// SARIF writes the report in the form that code scanning services read.
func (r *Report) SARIF(w io.Writer) error {
	index := map[string]int{}
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "thoxbuild abicheck", Rules: []sarifRule{}}
	for i, info := range r.Rules {
		index[info.ID] = i
		sr := sarifRule{ID: info.ID, ShortDescription: sarifText{info.Title}, FullDescription: sarifText{info.Explain}, Help: sarifText{info.Explain}}
		sr.Default.Level = level(info.Severity)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sr)
	}
	for i := range r.Findings {
		run.Results = append(run.Results, result(&r.Findings[i], index))
	}
	for i := range r.Suppressed {
		res := result(&r.Suppressed[i].Finding, index)
		res.Suppressions = []sarifSuppression{{"external", r.Suppressed[i].Reason}}
		run.Results = append(run.Results, res)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0", Runs: []sarifRun{run},
	})
}

func level(s rule.Severity) string { return s.String() } // the words are the same

func result(f *rule.Finding, index map[string]int) sarifResult {
	text := f.Message
	if f.Member != "" {
		text = f.Member + ": " + text
	}
	for _, d := range f.Detail {
		text += "\n" + d
	}
	if f.Fix != "" {
		text += "\nfix: " + f.Fix
	}
	i, ok := index[f.ID]
	if !ok {
		i = -1
	}
	loc := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{URI: uri(f.File)}}}
	switch {
	case f.HasAddr:
		loc.Physical.Address = &sarifAddress{Absolute: &f.Addr}
	case f.HasOffset && f.Section != "":
		loc.Physical.Address = &sarifAddress{Relative: &f.Offset, Name: f.Section}
	}
	if f.Symbol != "" {
		l := sarifLogical{Name: f.Symbol, Kind: "function", FullyQualifed: f.Demangled}
		loc.Logical = []sarifLogical{l}
	}
	// The same finding in the next build has the same fingerprint: no address.
	sum := sha256.Sum256([]byte(strings.Join([]string{f.ID, f.File, f.Member, f.Symbol, f.Section, f.Message}, "\x00")))
	return sarifResult{
		RuleID: f.ID, RuleIndex: i, Level: level(f.Severity), Message: sarifText{text},
		Locations:    []sarifLocation{loc},
		Fingerprints: map[string]string{"finding/v1": hex.EncodeToString(sum[:16])},
	}
}

// uri writes a path as a URI reference.
func uri(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}
