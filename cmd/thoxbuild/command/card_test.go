package command

import (
	"strings"
	"testing"
)

func TestFillCard(t *testing.T) {
	values := map[string]string{"repo_id": "a/b", "version": "2"}
	for _, tt := range []struct{ in, want, wantErr string }{
		{"plain\n", "plain\n", ""},
		{"get_kernel(\"{{ repo_id }}\", version={{version}})", "get_kernel(\"a/b\", version=2)", ""},
		{"a\n{{ repoid }}", "", `line 2: unknown variable "repoid"; a card knows repo_id, version`},
		{"a\nb\n{% if x %}", "", "line 3: blocks"},
		{"{ { repo_id } } and {{ REPO }} stay", "{ { repo_id } } and {{ REPO }} stay", ""},
	} {
		got, err := fillCard([]byte(tt.in), values)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("fillCard(%q): error %v, want %q", tt.in, err, tt.wantErr)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("fillCard(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
