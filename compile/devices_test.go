package compile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

// The metadata lists what is in the library; the plan's list is what it is
// held against.
func TestDevicesComeFromTheLibrary(t *testing.T) {
	planned := []string{"8.0", "9.0a", "12.0+PTX"}
	tests := []struct {
		name  string
		holds []string
		want  []string
		err   string
	}{
		{"as planned", planned, []string{"12.0+PTX", "8.0", "9.0a"}, ""},
		{"more than planned", append(slices.Clone(planned), "10.0"), []string{"10.0", "12.0+PTX", "8.0", "9.0a"}, ""},
		{"PTX more than planned", []string{"8.0+PTX", "9.0a", "12.0+PTX"}, []string{"12.0+PTX", "8.0+PTX", "9.0a"}, ""},
		{"no device code", nil, nil, ""},
		{"one lost", []string{"8.0", "12.0+PTX"}, nil, "no code for 9.0a"},
		{"PTX lost", []string{"8.0", "9.0a", "12.0"}, nil, "no code for 12.0+PTX"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			b.devices = func(library string) ([]string, error) {
				if _, err := os.Stat(library); err != nil {
					t.Error(err)
				}
				return tt.holds, nil
			}
			res, err := b.run(cu130)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, expected %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(res.Variants[0].Dir, metadataFile))
			if err != nil {
				t.Fatal(err)
			}
			m, err := manifests.ParseMetadata(text)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.Backend.Archs, tt.want) {
				t.Errorf("archs %q, expected %q", m.Backend.Archs, tt.want)
			}
		})
	}
}
