package compile

import (
	"slices"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// TestHistoryOfShards: builds of different variants that end one after the
// other, but began together, keep what each has learnt.
func TestHistoryOfShards(t *testing.T) {
	dir := t.TempDir()
	shared, a, b := &Action{Label: "shared", Variants: []string{"a", "b"}}, &Action{Label: "only a", Variants: []string{"a"}}, &Action{Label: "only b", Variants: []string{"b"}}
	learn := func(h *History, variant string, cpu time.Duration, actions ...*Action) {
		p := &Plan{variants: []*variantPlan{{name: variant}}}
		for _, act := range actions {
			one := *act
			one.Variants = []string{variant}
			p.actions = append(p.actions, &one)
			h.add(act.Label, action.DigestOf([]byte(act.Label)), &action.Spec{}, &action.Result{CPU: cpu})
		}
		h.remember(p)
	}
	one, two := OpenHistory(dir, "/kernel"), OpenHistory(dir, "/kernel")
	learn(one, "a", time.Second, shared, a)
	learn(two, "b", 2*time.Second, shared, b)
	for _, h := range []*History{one, two} {
		if err := h.Save(); err != nil {
			t.Fatal(err)
		}
	}
	h := OpenHistory(dir, "/kernel")
	if got := h.Variants(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("variants %q, expected both", got)
	}
	for variant, want := range map[string][]string{"a": {"only a", "shared"}, "b": {"only b", "shared"}} {
		var got []string
		for _, p := range h.Parts(variant) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s was made of %q, expected %q", variant, got, want)
		}
	}
	if got := h.Parts("a"); len(got) == 2 && got[1].Seconds != 2 {
		t.Errorf("what both have run took %v s, expected what the later one said", got[1].Seconds)
	}

	// What was learnt is saved once.
	three := OpenHistory(dir, "/kernel")
	learn(three, "a", time.Second, shared, a)
	if err := one.Save(); err != nil {
		t.Fatal(err)
	}
	if err := three.Save(); err != nil {
		t.Fatal(err)
	}
	if got := OpenHistory(dir, "/kernel").Parts("b"); len(got) != 2 {
		t.Errorf("a build of a lost what b is made of: %v", got)
	}
}
