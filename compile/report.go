package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// reportDir is the folder beside the variants that holds what the checks said
// about them. It is not part of any variant, so it is never published in one.
const reportDir = ".abicheck"

// A CheckReport is what the checks of a build said about one variant, with the
// roles of its objects known.
type CheckReport struct {
	Variant string `json:"variant"`
	// Metadata is the SHA-256 of the variant's metadata.json, which holds the
	// digests of all files: the report is about these and no others.
	Metadata string `json:"metadata_sha256"`
	// Objects and Library are the Checker's reports before and after the link.
	Objects json.RawMessage `json:"objects"`
	Library json.RawMessage `json:"library"`
}

// ReportFile is where the report about a variant lies in the folder of
// variants.
func ReportFile(outDir, variant string) string {
	return filepath.Join(outDir, reportDir, variant+".json")
}

// About reports whether the report is about a variant with this metadata.json.
func (r *CheckReport) About(metadata []byte) bool { return r.Metadata == sum(metadata) }

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// maxReport bounds a report that is read.
const maxReport = 64 << 20

// ReadReport reads the report about a variant, with the bytes of the file. It
// returns nil without an error when there is none.
func ReadReport(outDir, variant string) (*CheckReport, []byte, error) {
	f, err := os.Open(ReportFile(outDir, variant))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReport))
	if err != nil {
		return nil, nil, err
	}
	var r CheckReport
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return &r, b, nil
}

// storeReport writes the report about a variant that has been assembled.
func (r *runner) storeReport(vp *variantPlan, metadata []byte) error {
	if len(vp.checks) != 2 {
		return nil
	}
	rep := CheckReport{Variant: vp.name, Metadata: sum(metadata)}
	var parts [2]action.Digest
	for i := range parts {
		out, ok := r.results[vp.checks[i].index].Output(reportOut)
		if !ok {
			return fmt.Errorf("the check left no report")
		}
		parts[i] = out.Digest
	}
	name, index := ReportFile(r.p.cfg.OutDir, vp.name), r.p.cfg.Index
	from := action.DigestOf(fmt.Appendf(nil, "report 1 %q %s %s %s", rep.Variant, rep.Metadata, parts[0], parts[1]))
	if index.MadeFrom(name, from) {
		return nil
	}
	for i, to := range []*json.RawMessage{&rep.Objects, &rep.Library} {
		b, err := r.blob(parts[i])
		if err != nil {
			return err
		}
		*to = b
	}
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	want := action.DigestOf(b)
	if old, err := index.Digest(name); err == nil && old == want {
		index.SetFrom(name, want, from)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(name, b, 0o644, renameio.WithStaticPermissions(0o644)) // the umask has no say
}

func (r *runner) blob(d action.Digest) ([]byte, error) {
	f, err := r.open(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
