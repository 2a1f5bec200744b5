package matrix

import (
	"slices"
	"testing"
)

func TestDeal(t *testing.T) {
	vs := expand(t, kernel(t), nil)
	whole := func(v Variant) []Part {
		return []Part{{v.Name.String(), float64(len(v.Compute.String())*v.Torch.Minor%7) + 0.5}}
	}
	for _, parts := range []func(Variant) []Part{nil, whole} {
		for _, n := range []int{1, 3, 7, len(vs) + 5} {
			shards, seconds := Deal(vs, n, parts)
			mirrored := slices.Clone(vs)
			slices.Reverse(mirrored)
			back, _ := Deal(mirrored, n, parts) // the order in which variants come must not matter
			seen := map[string]int{}
			for i, shard := range shards {
				slices.Reverse(back[i])
				if !slices.Equal(names(shard), names(back[i])) {
					t.Errorf("shard %d of %d depends on the order", i, n)
				}
				for _, v := range shard {
					seen[v.Name.String()]++
				}
				if !slices.Equal(IDs(shard), IDs(VariantsOf(vs, IDs(shard)))) {
					t.Errorf("shard %d of %d is not found again by its names", i, n)
				}
			}
			if len(shards) != n || len(seen) != len(vs) {
				t.Errorf("%d shards hold %d of %d variants", len(shards), len(seen), len(vs))
			}
			for name, times := range seen {
				if times != 1 {
					t.Errorf("%s is in %d of %d shards", name, times, n)
				}
			}
			if parts == nil {
				continue
			}
			dearest := 0.0
			for _, v := range vs {
				dearest = max(dearest, parts(v)[0].Seconds)
			}
			if d := slices.Max(seconds) - slices.Min(seconds); d > dearest {
				t.Errorf("%d shards cost from %v to %v, and the dearest variant only %v", n, slices.Min(seconds), slices.Max(seconds), dearest)
			}
		}
	}
}

// Variants that share dear device code go to one shard; what each takes alone
// is spread.
func TestDealShares(t *testing.T) {
	vs, err := Select(expand(t, kernel(t), nil), []string{"torch21*-cxx11-cu1*-x86_64-linux"})
	if err != nil {
		t.Fatal(err)
	}
	parts := func(v Variant) []Part {
		return []Part{{"device " + v.Compute.String(), 300}, {v.Name.String(), 10}}
	}
	shards, seconds := Deal(vs, 3, parts)
	for i, shard := range shards {
		computes := map[string]bool{}
		for _, v := range shard {
			computes[v.Compute.String()] = true
		}
		if want := 300 + 10*float64(len(shard)); len(computes) != 1 || seconds[i] != want {
			t.Errorf("shard %d compiles device code for %v in %v s: %v", i+1, computes, seconds[i], names(shard))
		}
	}
	// With more shards than device code, the work is split all the same.
	if _, seconds := Deal(vs, 6, parts); slices.Max(seconds) > 340 {
		t.Errorf("%v", seconds)
	}
}

func TestParseShard(t *testing.T) {
	if s, err := ParseShard("2/4"); err != nil || s != (Shard{2, 4}) || s.String() != "2/4" {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "2", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1/ 4"} {
		if s, err := ParseShard(bad); err == nil {
			t.Errorf("%q was read as %v", bad, s)
		}
	}
}
