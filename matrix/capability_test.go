package matrix

import (
	"slices"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

// The vectors come from running the upstream function; "" is an empty result.
func TestLooseIntersection(t *testing.T) {
	toolkits := []manifests.Version{{Major: 12, Minor: 6}, {Major: 12, Minor: 8}, {Major: 13, Minor: 0}}
	for asked, want := range map[string][3]string{
		"8.0 9.0a":         {"8.0 9.0a", "8.0 9.0a", "8.0 9.0a"},
		"8.0 8.6 9.0 9.0a": {"8.0 8.6 9.0a", "8.0 8.6 9.0a", "8.0 8.6 9.0a"},
		"7.5 8.0+PTX":      {"7.5 8.0+PTX", "7.5 8.0+PTX", "7.5 8.0+PTX"},
		"10.0":             {"", "10.0", "10.0"},
		"9.0 10.0 12.0":    {"9.0", "9.0 10.0 12.0", "9.0 10.0 12.0"},
		"10.0f 12.0f":      {"", "10.0f 12.0f", "10.0f 12.0f"},
		"12.0a":            {"", "12.0a", "12.0a"},
		"10.3a":            {"", "", ""},
		"9.0 12.1a":        {"9.0", "9.0", "9.0 12.1a"},
		"7.0 7.5 8.0 8.9":  {"7.0 7.5 8.0 8.9", "7.0 7.5 8.0 8.9", "7.5 8.0 8.9"},
		"9.0a+PTX":         {"9.0a+PTX", "9.0a+PTX", "9.0a+PTX"},
		"6.0":              {"", "", ""},
		// Not upstream's: order and numbers.
		"10.0 9.0":     {"9.0", "9.0 10.0", "9.0 10.0"},
		"99999.0":      {"", "", ""},
		"9.0 9.0+PTX":  {"9.0+PTX", "9.0+PTX", "9.0+PTX"},
		"12.1":         {"", "", "12.1"},
		"10.0a 10.0f":  {"", "10.0a 10.0f", "10.0a 10.0f"},
		"8.0 8.0 8.0a": {"8.0 8.0a", "8.0 8.0a", "8.0 8.0a"},
	} {
		for i, cuda := range toolkits {
			list := strings.Fields(asked)
			got, dropped, err := LooseIntersection(list, Default().Capabilities(cuda))
			if err != nil || strings.Join(got, " ") != want[i] {
				t.Errorf("%s for CUDA %v: %v, %v, want %s", asked, cuda, got, err, want[i])
			}
			// What is asked for is either compiled or reported.
			for _, a := range list {
				used := slices.ContainsFunc(got, func(g string) bool { return strings.TrimSuffix(g, "+PTX") == strings.TrimSuffix(a, "+PTX") })
				if used == slices.Contains(dropped, a) {
					t.Errorf("%s for CUDA %v: %s is used %v, dropped %v", asked, cuda, a, got, dropped)
				}
			}
		}
	}
	for _, bad := range []string{"9", "9.0b", "a.0", "9.0+ptx", "09.0", "+PTX", "", "9.0 ", "-1.0"} {
		if got, _, err := LooseIntersection([]string{bad}, []string{"9.0"}); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func FuzzLooseIntersection(f *testing.F) {
	f.Add("8.0 9.0a 12.0+PTX")
	f.Add("7.5 8.0+PTX 10.0f")
	f.Fuzz(func(t *testing.T, asked string) {
		list := strings.Fields(asked)
		for _, cuda := range []manifests.Version{{Major: 12, Minor: 6}, {Major: 13, Minor: 2}} {
			got, _, err := LooseIntersection(list, Default().Capabilities(cuda))
			if err != nil {
				return
			}
			// Nothing is compiled that was not asked for, nothing twice, and
			// asking for the result gives the result.
			seen := map[string]bool{}
			for _, g := range got {
				base := strings.TrimSuffix(g, "+PTX")
				if !slices.Contains(list, base) && !slices.Contains(list, base+"+PTX") || seen[base] {
					t.Fatalf("%q gives %v", list, got)
				}
				seen[base] = true
			}
			again, dropped, err := LooseIntersection(got, Default().Capabilities(cuda))
			if err != nil || !slices.Equal(again, got) || len(dropped) > 0 {
				t.Fatalf("%v, asked for again, gives %v and drops %v (%v)", got, again, dropped, err)
			}
		}
	})
}
