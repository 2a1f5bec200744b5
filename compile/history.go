package compile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/matrix"
)

// History remembers what the last run of each action was made of and how long
// it took. It explains why an action runs again and lets a plan estimate.
//
// It is read when something of it is needed: a build that runs nothing needs to
// know only that it has nothing to remember.
type History struct {
	path string

	mu      sync.Mutex // guards everything below
	loaded  bool
	runs    map[string]*pastRun // by label
	settled []action.Digest     // plans that remember would learn nothing from
	new     bool
	learnt  []func() // what changed runs and settled, for Save to do again
}

type pastRun struct {
	Key     action.Digest `json:"key"`
	Seconds float64       `json:"seconds"`
	CPU     float64       `json:"cpu"`
	Lines   []action.Line `json:"lines"`
	// Variants needed it in the last build of each, sorted.
	Variants []string `json:"variants,omitempty"`
}

// historyHead is the first line of the file, which can be read without the
// rest.
type historyHead struct {
	Version int             `json:"history"`
	Settled []action.Digest `json:"settled"`
}

const (
	historyVersion = 2
	// maxSettled is for how many choices of variants a file says that nothing
	// is to be remembered; maxHead bounds the line that says so.
	maxSettled = 16
	maxHead    = 4 << 10
)

// OpenHistory opens the history of a kernel's builds in a cache folder. A file
// that is missing or damaged is an empty history.
func OpenHistory(cacheDir, kernelDir string) *History {
	sum := sha256.Sum256([]byte(kernelDir))
	h := &History{path: filepath.Join(cacheDir, "history", hex.EncodeToString(sum[:8])+".json")}
	if f, err := os.Open(h.path); err == nil {
		defer f.Close()
		line, err := bufio.NewReaderSize(f, maxHead).ReadSlice('\n')
		if err == nil {
			h.settled = headOf(line).Settled
		}
	}
	return h
}

// headOf reads the first line; it is empty where there is none.
func headOf(line []byte) historyHead {
	var head historyHead
	if json.Unmarshal(line, &head) != nil || head.Version != historyVersion {
		return historyHead{}
	}
	return head
}

// load reads the whole file; mu is held. What is settled is read again with it:
// another process may have written the file since the first line was read.
func (h *History) load() {
	if h.loaded {
		return
	}
	h.loaded, h.runs, h.settled = true, map[string]*pastRun{}, nil
	b, err := os.ReadFile(h.path)
	if err != nil {
		return
	}
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	head := headOf(line)
	if head.Version == 0 {
		rest = b // the file of an older release has no first line
	}
	var runs map[string]*pastRun
	if json.Unmarshal(rest, &runs) != nil {
		return
	}
	h.settled = head.Settled
	for label, r := range runs {
		if r != nil {
			h.runs[label] = r
		}
	}
}

// Costs are the seconds that each action took, by label.
func (h *History) Costs() map[string]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.load()
	costs := map[string]float64{}
	for label, r := range h.runs {
		costs[label] = r.Seconds
	}
	return costs
}

// Parts are what a variant's last build was made of, with the processor time
// of each action; none when nothing is known. What another variant needs as
// well has the same name there.
func (h *History) Parts(variant string) []matrix.Part {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.load()
	var out []matrix.Part
	for _, label := range slices.Sorted(maps.Keys(h.runs)) {
		r := h.runs[label]
		if _, found := slices.BinarySearch(r.Variants, variant); !found {
			continue
		}
		cost := r.CPU
		if cost == 0 { // a step of this program itself
			cost = r.Seconds
		}
		out = append(out, matrix.Part{Name: label, Seconds: cost})
	}
	return out
}

// Variants are those that some build needed, sorted.
func (h *History) Variants() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.load()
	var out []string
	for _, r := range h.runs {
		out = append(out, r.Variants...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// remember notes which actions each variant of a plan needs now.
func (h *History) remember(p *Plan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	plan := needsDigest(p)
	if slices.Contains(h.settled, plan) {
		return
	}
	h.load()
	needs := map[string][]string{} // by label
	planned := map[string]bool{}
	for _, a := range p.actions {
		needs[a.Label] = append(needs[a.Label], a.Variants...)
	}
	for _, vp := range p.variants {
		planned[vp.name] = true
	}
	h.learn(func() {
		for label, r := range h.runs {
			now := slices.DeleteFunc(slices.Clone(r.Variants), func(v string) bool { return planned[v] })
			now = append(now, needs[label]...)
			slices.Sort(now)
			if now = slices.Compact(now); !slices.Equal(now, r.Variants) {
				r.Variants, h.settled = now, nil
			}
		}
		if !slices.Contains(h.settled, plan) {
			h.settled, h.new = append(h.settled[max(0, len(h.settled)-maxSettled+1):], plan), true
		}
	})
}

// learn changes what is known, and keeps the change for Save; mu is held.
func (h *History) learn(change func()) {
	change()
	h.learnt = append(h.learnt, change)
}

// needsDigest is the same for plans of which remember learns the same.
func needsDigest(p *Plan) action.Digest {
	var b []byte
	for _, vp := range p.variants {
		b = append(append(b, vp.name...), 0)
	}
	for _, a := range p.actions {
		b = append(append(b, 1), a.Label...)
		for _, v := range a.Variants {
			b = append(append(b, 0), v...)
		}
	}
	return action.DigestOf(b)
}

// Save writes the history when a run was added. Builds of other variants, the
// shards of one machine, may have written theirs meanwhile: what this one has
// learnt is added to what is there now.
func (h *History) Save() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.new {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o777); err != nil {
		return fmt.Errorf("save the build history: %w", err)
	}
	// Times are not worth a long wait: at worst another's are lost.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lock := flock.New(h.path+".lock", flock.SetPermissions(0o666))
	if ok, _ := lock.TryLockContext(ctx, 20*time.Millisecond); ok {
		defer lock.Unlock()
	}
	h.loaded = false
	h.load()
	for _, change := range h.learnt {
		change()
	}
	head, err := json.Marshal(historyHead{historyVersion, h.settled})
	if err != nil {
		return err
	}
	b, err := json.Marshal(h.runs)
	if err != nil {
		return err
	}
	b = slices.Concat(head, []byte("\n"), b)
	if err := renameio.WriteFile(h.path, b, 0o666); err != nil {
		return fmt.Errorf("save the build history: %w", err)
	}
	h.new, h.learnt = false, nil
	return nil
}

func (h *History) add(label string, key action.Digest, s *action.Spec, r *action.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.load()
	lines := s.Explain()
	h.learn(func() {
		h.settled = nil // that there is nothing to remember was said of other runs
		run := &pastRun{Key: key, Seconds: r.Wall.Seconds(), CPU: r.CPU.Seconds(), Lines: lines}
		if old := h.runs[label]; old != nil {
			run.Variants = old.Variants
		}
		h.runs[label] = run
		h.new = true
	})
}

// Explanation is what an action's key is made of, and what has changed since
// the action last ran.
type Explanation struct {
	Label string
	Key   action.Digest
	// Known is false when an input's digest is not known because the action
	// that makes it is not in the cache; Key is then zero.
	Known bool
	// Cached says that the result is in the cache.
	Cached bool
	Lines  []action.Line
	// Seen says that the history has a run of that label; Changes is the
	// difference from it.
	Seen    bool
	Changes []action.Change
}
