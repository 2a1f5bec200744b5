package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var update = flag.Bool("update", false, "write the golden files")

func sample() *report.Report {
	expires := time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	return &report.Report{
		Rules: []rule.Info{{ID: "ISA-LOAD", Severity: rule.Error, Title: "runs too early", Explain: "Long text."}, {ID: "MANYLINUX", Severity: rule.Error, Title: "too new", Explain: "Long text."}},
		Files: []report.File{{File: "build/_ops.abi3.so", Format: "elf", Arch: "x86_64", Role: "foreign"}},
		Findings: []rule.Finding{
			{ID: "ISA-LOAD", Severity: rule.Error, File: "build/_ops.abi3.so", Addr: 0x14ffdf, HasAddr: true, Symbol: "_Z4initv", Demangled: "init()",
				Message: "AVX instruction runs when the library is loaded", Detail: []string{".init_array[2] -> sub_14ffc0"}, Fix: "make the global constexpr", Confidence: rule.Likely},
			{ID: "MANYLINUX", Severity: rule.Warning, File: "a b.whl", Member: "pkg/x.so", Message: "100% new,\nwith: a \x1b[31mtrap", Fix: "build again", Confidence: rule.Certain},
			{ID: "MANYLINUX", Severity: rule.Note, File: "z.o", Section: ".text", Offset: 0x21, HasOffset: true, Message: "a note", Confidence: rule.Certain},
		},
		Suppressed: []report.Suppressed{{Finding: rule.Finding{ID: "MANYLINUX", File: "y.so", Message: "accepted"}, Reason: "old cluster", Expires: &expires}},
	}
}

func TestForms(t *testing.T) {
	for name, write := range map[string]func(*report.Report, *bytes.Buffer) error{
		"text":   func(r *report.Report, b *bytes.Buffer) error { return r.Text(b, report.TextOptions{}) },
		"color":  func(r *report.Report, b *bytes.Buffer) error { return r.Text(b, report.TextOptions{Color: true}) },
		"json":   func(r *report.Report, b *bytes.Buffer) error { return r.JSON(b) },
		"sarif":  func(r *report.Report, b *bytes.Buffer) error { return r.SARIF(b) },
		"github": func(r *report.Report, b *bytes.Buffer) error { return r.GitHub(b) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(sample(), &b); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestSARIF checks what the schema of SARIF 2.1.0 requires of the objects that
// we write: required properties, the level enumeration, rule indices in range,
// and addresses of at least zero.
func TestSARIF(t *testing.T) {
	var b bytes.Buffer
	if err := sample().SARIF(&b); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version *string
		Runs    []struct {
			Tool *struct {
				Driver *struct {
					Name  *string
					Rules []struct {
						ID               *string
						ShortDescription *struct{ Text *string }
						Default          struct{ Level string } `json:"defaultConfiguration"`
					}
				}
			}
			Results []struct {
				RuleID    *string
				RuleIndex int
				Level     string
				Message   *struct{ Text *string }
				Locations []struct {
					PhysicalLocation *struct {
						ArtifactLocation *struct{ URI *string }
						Address          *struct{ AbsoluteAddress, RelativeAddress *int64 }
					}
				}
				PartialFingerprints map[string]string
				Suppressions        []struct{ Kind *string }
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version == nil || *log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("version %v, %d runs", log.Version, len(log.Runs))
	}
	levels := []string{"none", "note", "warning", "error"}
	driver := log.Runs[0].Tool.Driver
	if driver.Name == nil {
		t.Error("tool.driver.name is required")
	}
	for i, r := range driver.Rules {
		if r.ID == nil || r.ShortDescription == nil || r.ShortDescription.Text == nil || !slices.Contains(levels, r.Default.Level) {
			t.Errorf("rule %d lacks something: %+v", i, r)
		}
	}
	if n := len(log.Runs[0].Results); n != 4 {
		t.Errorf("%d results, want the 3 findings and the suppressed one", n)
	}
	for i, r := range log.Runs[0].Results {
		if r.Message == nil || r.Message.Text == nil {
			t.Errorf("result %d: message.text is required", i)
		}
		if !slices.Contains(levels, r.Level) {
			t.Errorf("result %d: level %q", i, r.Level)
		}
		if r.RuleIndex < 0 || r.RuleIndex >= len(driver.Rules) || *driver.Rules[r.RuleIndex].ID != *r.RuleID {
			t.Errorf("result %d: ruleIndex %d does not point to %s", i, r.RuleIndex, *r.RuleID)
		}
		if len(r.PartialFingerprints) == 0 {
			t.Errorf("result %d: no fingerprint", i)
		}
		for _, l := range r.Locations {
			if l.PhysicalLocation.ArtifactLocation.URI == nil {
				t.Errorf("result %d: no URI", i)
			}
		}
		for _, s := range r.Suppressions {
			if s.Kind == nil || *s.Kind != "external" && *s.Kind != "inSource" {
				t.Errorf("result %d: suppression kind %v", i, s.Kind)
			}
		}
	}
}

func TestFailed(t *testing.T) {
	r := sample()
	if !r.Failed() {
		t.Error("an error does not fail")
	}
	r.Findings = r.Findings[1:]
	if r.Failed() {
		t.Error("a warning fails")
	}
	if r.Strict = true; !r.Failed() {
		t.Error("a warning does not fail in strict mode")
	}
}
