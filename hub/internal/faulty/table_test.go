package faulty_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/internal/faulty"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
)

// outcome is what one seeded run met.
type outcome struct {
	faults, reruns int
	// payload is what had to travel, sent what did.
	payload, sent int64
}

// row is one line of the fault table.
type row struct {
	name string
	run  func(t *testing.T, seed uint64) outcome
}

// The registry in process speaks through the standard log.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// runs is how many seeds each row gets: 5, or 100 for the whole suite.
func runs() uint64 {
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		return 100
	}
	return 5
}

// TestFaultTable publishes and pulls through every kind of fault, seeded, to
// the embedded Hub and to a registry, and prints what happened. `make faults`
// prints its lines as a table.
func TestFaultTable(t *testing.T) {
	var rows []row
	for _, k := range faulty.Kinds {
		rows = append(rows, row{"hub publish: " + string(k), publishRow(handlerFault(k))})
	}
	rows = append(rows,
		row{"hub publish: TCP cut upward", publishRow(wireFault(true))},
		row{"hub publish: TCP cut downward", publishRow(wireFault(false))},
		row{"hub publish: ended at any point", publishRow(ended)},
		row{"hub publish: race of two", raceRow(2)},
		row{"hub publish: race of eight", raceRow(8)},
	)
	for _, k := range faulty.Kinds {
		rows = append(rows, row{"registry push: " + string(k), pushRow(handlerFault(k), inProcess)})
	}
	rows = append(rows,
		row{"registry push: TCP cut upward", pushRow(wireFault(true), inProcess)},
		row{"registry push: TCP cut downward", pushRow(wireFault(false), inProcess)},
		row{"registry push: ended at any point", pushRow(ended, inProcess)},
		row{"hub pull: all kinds", pullRow(handlerFault(faulty.Kinds...), false)},
		row{"hub pull: TCP cut downward", pullRow(wireFault(false), false)},
		row{"registry pull: all kinds", pullRow(handlerFault(faulty.Kinds...), true)},
		row{"registry pull: TCP cut downward", pullRow(wireFault(false), true)},
		row{"hub publish and pull: lies", lieRow},
		row{"registry pull: lies", lieRegistryRow},
	)
	if docker := dockerRegistry(t); docker != nil {
		rows = append(rows,
			row{"docker-registry push: all kinds", pushRow(handlerFault(faulty.Kinds...), docker)},
			row{"docker-registry push: TCP cut upward", pushRow(wireFault(true), docker)},
			row{"docker-registry push: TCP cut downward", pushRow(wireFault(false), docker)},
			row{"docker-registry push: ended at any point", pushRow(ended, docker)},
		)
	}
	var mu sync.Mutex
	lines := make([]string, len(rows))
	t.Run("rows", func(t *testing.T) {
		for i, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				var sum outcome
				survived := 0
				for seed := range runs() {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						o := r.run(t, seed)
						sum.faults += o.faults
						sum.reruns += o.reruns
						sum.payload += o.payload
						sum.sent += o.sent
						if !t.Failed() {
							survived++
						}
					})
				}
				if sum.faults == 0 {
					t.Error("no run met a fault")
				}
				mu.Lock()
				defer mu.Unlock()
				lines[i] = faulty.TableLine(r.name, int(runs()), survived, sum.faults, sum.reruns, sum.payload, max(sum.sent-sum.payload, 0))
			})
		}
	})
	for _, l := range lines {
		t.Log(l)
	}
}

// between puts faults between a client and a server: address is where the
// client then goes, HOST:PORT, faults how many there were so far.
type between func(t *testing.T, h http.Handler, seed uint64) (address string, faults func() int)

// ended leaves the requests alone and ends the client instead: see life.
func ended(t *testing.T, h http.Handler, seed uint64) (string, func() int) {
	r := &reaper{rng: rand.New(rand.NewPCG(seed, 17))}
	reapers.Store(t.Name(), r)
	return listen(t, h), func() int { return int(r.n.Load()) }
}

// reapers are those of the runs that end their client, by test name.
var reapers sync.Map

type reaper struct {
	rng *rand.Rand
	n   atomic.Int64
}

// life is a context for one attempt of a client. In a run that ends its client
// it is over after some milliseconds in three of four attempts, as if the
// process had been killed: all its connections break.
func life(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	v, ok := reapers.Load(t.Name())
	if !ok {
		return ctx, cancel
	}
	r := v.(*reaper)
	if r.rng.IntN(4) == 0 {
		return ctx, cancel
	}
	timer := time.AfterFunc(time.Duration(r.rng.IntN(60))*time.Millisecond, func() {
		r.n.Add(1)
		cancel()
	})
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

func handlerFault(kinds ...faulty.Kind) between {
	return func(t *testing.T, h http.Handler, seed uint64) (string, func() int) {
		f := &faulty.Handler{Next: h, Seed: seed, Rate: 0.25, Only: kinds}
		s := httptest.NewUnstartedServer(f)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Start()
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://"), func() (n int) {
			for _, hits := range f.Hits() {
				n += hits
			}
			return n
		}
	}
}

func wireFault(up bool) between {
	return func(t *testing.T, h http.Handler, seed uint64) (string, func() int) {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Start()
		t.Cleanup(s.Close)
		w, err := faulty.NewWire(strings.TrimPrefix(s.URL, "http://"), seed, up, 0.6)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w.Addr(), w.Cuts
	}
}

var variants = []string{hubtest.VariantA, hubtest.VariantB}

// sample is a variant's files, of which the large one does not compress.
func sample(rng *rand.Rand, seed string) map[string]string {
	files := hubtest.Sample(seed)
	noise := make([]byte, 30_000+rng.IntN(70_000))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	files["_demo.abi3.so"] = string(noise)
	return files
}

// tries bounds how often a publisher or puller is started again.
const tries = 100

func listen(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(host, port)
}
