package compile

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// runner is one pass over a plan. The mutex guards everything below it; no
// command runs and no file is read while it is held.
type runner struct {
	p *Plan
	o RunOptions
	// here has room for the steps of this program itself that run at once.
	here chan struct{}

	mu      sync.Mutex
	wake    *sync.Cond
	ready   queue
	waiting []int // unfinished dependencies by action
	results []*action.Result
	failed  []error   // by action: its own failure or that of what it waited for
	chain   []float64 // by action: measured seconds of the longest chain to its end
	left    int
	running int
	stopped bool
	errs    []error
	res     *Result
}

// newRunner looks everything up that the cache may hold, and lines the rest up.
func newRunner(p *Plan, o RunOptions) *runner {
	n := len(p.actions)
	r := &runner{
		p: p, o: o, left: n, here: make(chan struct{}, runtime.GOMAXPROCS(0)),
		waiting: make([]int, n), results: make([]*action.Result, n), failed: make([]error, n), chain: make([]float64, n),
		res: &Result{Counts: Counts{Total: n}},
	}
	r.wake = sync.NewCond(&r.mu)
	if !o.Rebuild {
		r.results = p.lookUp(o.Cache, o.Jobs)
	}
	if slices.Contains(r.results, nil) {
		p.weigh(r.results)
	}
	for _, a := range p.actions {
		if res := r.results[a.index]; res != nil {
			r.emit(Event{Type: EventCached, Action: a, Result: res})
			r.finish(a, res, nil)
			continue
		}
		r.waiting[a.index] = 0 // what is known already does not count
		for _, d := range a.Deps {
			if r.results[d.index] == nil {
				r.waiting[a.index]++
			}
		}
		if r.waiting[a.index] == 0 {
			heap.Push(&r.ready, a)
		}
	}
	return r
}

// run executes the graph, then puts the folders together.
func (r *runner) run(parent context.Context) (*Result, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		r.stopped = true
		r.wake.Broadcast()
		r.mu.Unlock()
	})
	defer stop()
	var wg sync.WaitGroup
	for range min(r.o.Jobs, len(r.p.actions)) {
		wg.Go(func() { r.work(ctx, cancel) })
	}
	wg.Wait()
	r.assembleAll(parent)
	return r.res, errors.Join(r.errs...)
}

// work takes the most urgent action until none is left.
func (r *runner) work(ctx context.Context, cancel context.CancelFunc) {
	for {
		r.mu.Lock()
		for r.ready.Len() == 0 && r.left > 0 && !r.stopped {
			r.wake.Wait()
		}
		if r.left == 0 || r.stopped {
			r.mu.Unlock()
			return
		}
		a := heap.Pop(&r.ready).(*Action)
		r.running++
		r.mu.Unlock()

		res, err := r.step(ctx, a)

		r.mu.Lock()
		r.running--
		r.finish(a, res, err)
		if err != nil && !r.o.KeepGoing {
			r.stopped = true
			defer cancel()
		}
		r.wake.Broadcast()
		r.mu.Unlock()
	}
}

// step gets an action's result from the cache or by running it.
func (r *runner) step(ctx context.Context, a *Action) (*action.Result, error) {
	key, err := resolveKey(a, r.results) // written before a became ready, and never again
	if err != nil {
		return nil, err
	}
	if !r.o.Rebuild {
		if res, err := r.o.Cache.Result(key); err == nil {
			r.event(Event{Type: EventCached, Action: a, Result: res})
			return res, nil
		}
	}
	spec, err := resolveSpec(a, r.results)
	if err != nil {
		return nil, err
	}
	enc, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	r.event(Event{Type: EventQueued, Action: a})
	res, err := r.execute(ctx, a, spec, enc)
	if err != nil {
		return nil, r.failure(ctx, a, spec, res, err)
	}
	if err := r.o.Cache.PutResult(enc.Key, res); err != nil {
		return nil, err
	}
	if res.Cached {
		r.event(Event{Type: EventCached, Action: a, Result: res, Where: res.Where})
	}
	if r.o.History != nil {
		r.o.History.add(a.Label, enc.Key, spec, res)
	}
	return res, nil
}

// execute runs an action here or with the executor. A result with a non-zero
// exit code comes with errFailed.
func (r *runner) execute(ctx context.Context, a *Action, spec *action.Spec, enc *action.Encoded) (*action.Result, error) {
	started := func(where string) { r.event(Event{Type: EventStarted, Action: a, Where: where}) }
	if a.inProcess != nil {
		// The jobs may be many more than this machine has processors.
		select {
		case r.here <- struct{}{}:
			defer func() { <-r.here }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		started("")
		begin := time.Now()
		res, err := a.inProcess(ctx, &stepEnv{spec: spec, cache: r.o.Cache, ctx: ctx})
		if err == nil {
			res.Wall = time.Since(begin)
		}
		return res, err
	}
	req := &action.Request{
		Spec: spec, Encoded: enc, Timeout: r.o.Timeout, Started: started,
		Open: r.open, Path: r.o.Cache.Path, NoCache: r.o.Rebuild,
	}
	if a.early != nil {
		if res, err := r.linkEarly(ctx, a.early, req); res != nil || err != nil {
			return res, err
		}
	}
	if a.ready != nil {
		if err := a.ready(ctx); err != nil {
			return nil, err
		}
	}
	res, err := r.o.Executor.Run(ctx, req, r.o.Cache)
	if err == nil && res.ExitCode != 0 {
		err = errFailed
	}
	return res, err
}

// linkEarly links without what is not made yet, and returns nil where that
// makes another library or none: then the link is to be done as it stands.
func (r *runner) linkEarly(ctx context.Context, early *EarlyLink, whole *action.Request) (*action.Result, error) {
	if err := early.Ready(ctx); err != nil {
		return nil, err
	}
	spec := *whole.Spec
	spec.Args = slices.Clone(spec.Args)
	for i, arg := range spec.Args {
		spec.Args[i] = strings.ReplaceAll(arg, early.From, early.To)
	}
	enc, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	req := *whole
	req.Spec, req.Encoded = &spec, enc
	res, err := r.o.Executor.Run(ctx, &req, r.o.Cache)
	if err != nil || res.ExitCode != 0 {
		return nil, ctx.Err()
	}
	out, ok := res.Output(libraryOut)
	if !ok {
		return nil, nil
	}
	file, ok := r.o.Cache.Path(out.Digest)
	if !ok {
		return nil, nil
	}
	if same, err := early.Whole(file); err != nil || !same {
		return nil, nil
	}
	return res, nil
}

// errFailed is a command that ran to its end and failed.
var errFailed = errors.New("command failed")

// open finds the bytes of an input: a file of the kernel, generated text, or
// what another action made.
func (r *runner) open(d action.Digest) (io.ReadCloser, error) {
	rc, err := r.p.open(d)
	if !errors.Is(err, errUnknownBlob) {
		return rc, err
	}
	if rc, err = r.o.Cache.Open(d); err != nil {
		return nil, &missingBlobError{d}
	}
	return rc, nil
}

// finish records how an action ended and frees what waits for it. The caller
// holds the mutex.
func (r *runner) finish(a *Action, res *action.Result, err error) {
	r.left--
	if err != nil && r.stopped && errors.Is(err, context.Canceled) {
		// Ended because another one failed, or the run was interrupted.
		r.res.Counts.Skipped++
		r.emit(Event{Type: EventSkipped, Action: a, Err: err})
		return
	}
	if err != nil {
		r.errs = append(r.errs, err)
		r.fail(a, err)
		var missing *missingBlobError
		if errors.As(err, &missing) {
			// Nothing is wrong with the action: Run starts another round.
			r.res.Counts.Skipped++
			r.emit(Event{Type: EventSkipped, Action: a, Err: err})
			return
		}
		r.res.Counts.Failed++
		r.emit(Event{Type: EventFailed, Action: a, Err: err})
		return
	}
	r.results[a.index] = res
	for _, d := range a.Deps {
		r.chain[a.index] = max(r.chain[a.index], r.chain[d.index])
	}
	if res.Cached {
		r.res.Counts.Cached++
		if res.Where != "" {
			r.res.Counts.CachedElsewhere++
		}
		r.res.SavedSeconds += res.CPU.Seconds()
	} else {
		r.res.Counts.Ran++
		switch {
		case a.inProcess != nil:
			r.res.Counts.InProcess++
		case res.Where != "":
			r.res.Counts.RanElsewhere++
		}
		r.res.CPUSeconds += res.CPU.Seconds()
		r.chain[a.index] += res.Wall.Seconds()
		r.emit(Event{Type: EventFinished, Action: a, Result: res})
	}
	r.res.CriticalPath = max(r.res.CriticalPath, r.chain[a.index])
	for _, u := range a.users {
		if r.waiting[u.index]--; r.waiting[u.index] == 0 && r.failed[u.index] == nil {
			heap.Push(&r.ready, u)
		}
	}
}

// fail marks an action and all that wait for it.
func (r *runner) fail(a *Action, err error) {
	r.failed[a.index] = err
	for _, u := range a.users {
		if r.failed[u.index] == nil {
			r.left--
			r.res.Counts.Skipped++
			r.fail(u, err)
			r.emit(Event{Type: EventSkipped, Action: u, Err: err})
		}
	}
}

func (r *runner) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.emit(e)
}

// emit tells the observer; the caller holds the mutex, which keeps events in
// order.
func (r *runner) emit(e Event) {
	if r.o.Observer == nil {
		return
	}
	e.Time = time.Now()
	e.Total, e.Done, e.Running = r.res.Counts.Total, r.res.Counts.Total-r.left, r.running
	r.o.Observer.Observe(e)
}

// queue is the ready actions, the one with the longest chain behind it first.
type queue []*Action

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].weight, q[i].weight), cmp.Compare(q[i].index, q[j].index)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*Action)) }
func (q *queue) Pop() any {
	old := *q
	a := old[len(old)-1]
	*q = old[:len(old)-1]
	return a
}
