package matrix

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Shard is one of Count equal parts of the work; Index counts from 1.
type Shard struct{ Index, Count int }

// MaxShards is far above the jobs that any CI runs of one matrix.
const MaxShards = 10000

// ParseShard reads "I/N".
func ParseShard(s string) (Shard, error) {
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || count < 1 || index < 1 || index > count {
		return Shard{}, fmt.Errorf("shard %q: expected I/N with 1 <= I <= N, as in 2/4", s)
	}
	if count > MaxShards {
		return Shard{}, fmt.Errorf("shard %q: expected I/N with N at most %d", s, MaxShards)
	}
	return Shard{index, count}, nil
}

// String prints the form that ParseShard reads.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Part is a piece of a variant's work. Variants of one shard that need a part
// of the same name share it.
type Part struct {
	Name    string
	Seconds float64
}

// Deal splits variants into count shards and returns each one's in their
// order, with its estimated seconds. What several variants of a shard share
// counts once, so those that share device code come together unless that
// would keep one shard busy longer than the others. Every variant is in
// exactly one shard, and equal arguments give equal shards on every machine.
// Nil parts means EstimateParts. A shard can be empty.
func Deal(vs []Variant, count int, parts func(Variant) []Part) (shards [][]Variant, seconds []float64) {
	if parts == nil {
		parts = EstimateParts
	}
	sorted := slices.Clone(vs)
	slices.SortStableFunc(sorted, func(a, b Variant) int { return cmp.Compare(id(a), id(b)) })
	needs := make([][]Part, len(sorted))
	for i, v := range sorted {
		needs[i] = parts(v)
	}
	// Finding the best deal is as hard as packing bags. Take the better of two
	// simple ones, each variant for itself and all that share their dearest
	// part as one, after moving single variants while that helps.
	alone := newDealing(needs, count)
	for i := range needs {
		alone.add(i)
	}
	together := newDealing(needs, count)
	for _, group := range groups(needs) {
		together.add(group...)
	}
	best := alone
	if alone.improve(); together.improve() < slices.Max(alone.seconds) {
		best = together
	}
	shards = make([][]Variant, count)
	for _, v := range vs {
		i := slices.IndexFunc(sorted, func(w Variant) bool { return id(w) == id(v) })
		shards[best.in[i]] = append(shards[best.in[i]], v)
	}
	return shards, best.seconds
}

// groups puts variants with the same dearest part together, in a fixed order.
func groups(needs [][]Part) [][]int {
	var out [][]int
	at := map[string]int{}
	for i, ps := range needs {
		name := fmt.Sprint(i)
		if len(ps) > 0 {
			p := slices.MaxFunc(ps, func(a, b Part) int {
				return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(b.Name, a.Name))
			})
			name = p.Name
		}
		n, ok := at[name]
		if !ok {
			n = len(out)
			at[name] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

// dealing is a deal in the making. Items are numbered as in needs; add them,
// then improve.
type dealing struct {
	needs   [][]Part
	queue   [][]int
	in      []int            // shard by item
	uses    []map[string]int // by shard: how many items need a part
	seconds []float64        // by shard
	size    []int            // by shard
}

func newDealing(needs [][]Part, count int) *dealing {
	d := &dealing{needs: needs, in: make([]int, len(needs)), seconds: make([]float64, count), size: make([]int, count)}
	for range count {
		d.uses = append(d.uses, map[string]int{})
	}
	return d
}

// add queues items that stay together at first.
func (d *dealing) add(items ...int) { d.queue = append(d.queue, items) }

// improve deals the queue out, the dearest first and each to the shard that
// ends up with the least work, then moves single items out of the busiest
// shard while it gets less. It returns the seconds of the busiest.
func (d *dealing) improve() float64 {
	slices.SortStableFunc(d.queue, func(a, b []int) int { return cmp.Compare(d.cost(0, b...), d.cost(0, a...)) })
	for _, items := range d.queue {
		best, after := 0, 0.0
		for n := range d.seconds {
			with := d.seconds[n] + d.cost(n, items...)
			if n == 0 || with < after || with == after && d.size[n] < d.size[best] {
				best, after = n, with
			}
		}
		for _, i := range items {
			d.put(i, best)
		}
	}
	for range 4 * len(d.needs) {
		busy := slices.Index(d.seconds, slices.Max(d.seconds))
		item, to, after := -1, 0, d.seconds[busy]
		for i := range d.needs {
			if d.in[i] != busy {
				continue
			}
			for n := range d.seconds {
				if pair := max(d.seconds[busy]-d.alone(i), d.seconds[n]+d.cost(n, i)); n != busy && pair < after-1e-9 {
					item, to, after = i, n, pair
				}
			}
		}
		if item < 0 {
			break
		}
		d.seconds[busy] -= d.alone(item)
		d.size[busy]--
		for _, p := range d.needs[item] {
			d.uses[busy][p.Name]--
		}
		d.put(item, to)
	}
	return slices.Max(d.seconds)
}

// cost is what items add to a shard.
func (d *dealing) cost(shard int, items ...int) float64 {
	sum, counted := 0.0, map[string]bool{}
	for _, i := range items {
		for _, p := range d.needs[i] {
			if d.uses[shard][p.Name] == 0 && !counted[p.Name] {
				counted[p.Name] = true
				sum += max(0, p.Seconds)
			}
		}
	}
	return sum
}

// alone is what an item costs its shard and nobody else there needs.
func (d *dealing) alone(item int) float64 {
	sum := 0.0
	for _, p := range d.needs[item] {
		if d.uses[d.in[item]][p.Name] == 1 {
			sum += max(0, p.Seconds)
		}
	}
	return sum
}

func (d *dealing) put(item, shard int) {
	d.seconds[shard] += d.cost(shard, item)
	d.size[shard]++
	d.in[item] = shard
	for _, p := range d.needs[item] {
		d.uses[shard][p.Name]++
	}
}

// id names a variant among those of several kernels.
func id(v Variant) string { return v.Kernel.General.Name + "/" + v.Name.String() }

// What a file of each kind takes, in seconds of one core of a server, where no
// earlier build has measured it. torch's headers take most of the first; the
// last is for each architecture.
const (
	torchFileSeconds  = 8
	hostFileSeconds   = 2
	deviceFileSeconds = 3
)

// EstimateParts guesses a variant's work where no earlier build has measured
// it. Only files that see torch's headers are compiled for each release anew.
func EstimateParts(v Variant) []Part {
	k, where := v.Kernel.General.Name, v.Compute.String()+" "+string(v.Platform.Arch)
	out := []Part{{"link " + id(v), 1}}
	if t := v.Kernel.Torch; t != nil {
		out = append(out, Part{fmt.Sprintf("%s binding %s%v %s", k, v.Name.Framework, v.Torch, where), torchFileSeconds * compiled(t.Src)})
	}
	if t := v.Kernel.TVMFFI; t != nil {
		out = append(out, Part{fmt.Sprintf("%s binding %s %s", k, v.Name.Framework, where), hostFileSeconds * compiled(t.Src)})
	}
	for _, c := range v.Components {
		cost := hostFileSeconds * compiled(c.Section.Src)
		if len(c.Archs) > 0 {
			cost = deviceFileSeconds * compiled(c.Section.Src) * float64(len(c.Archs))
		}
		out = append(out, Part{fmt.Sprintf("%s section %s %s", k, c.Section.Name, where), cost})
	}
	return out
}

// compiled counts the files that are not headers.
func compiled(src []string) float64 {
	n := 0
	for _, f := range src {
		if e := path.Ext(f); e != "" && !strings.HasPrefix(e, ".h") && e != ".cuh" {
			n++
		}
	}
	return float64(n)
}

// VariantsOf picks from vs what a recorded shard names, in their order.
func VariantsOf(vs []Variant, names []string) []Variant {
	var out []Variant
	for _, v := range vs {
		if slices.Contains(names, id(v)) {
			out = append(out, v)
		}
	}
	return out
}

// IDs are the names that VariantsOf takes: KERNEL/VARIANT.
func IDs(vs []Variant) []string {
	out := []string{}
	for _, v := range vs {
		out = append(out, id(v))
	}
	return out
}
