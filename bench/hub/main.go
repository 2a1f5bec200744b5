// Command hub times publishing to the embedded Hub and to a registry against
// the tools that people use for it, in pairs A B A B, each on a fresh server.
//
//	go build -o bin/crane github.com/google/go-containerregistry/cmd/crane
//	go run ./bench/hub -crane bin/crane
//
// Time is wall-clock. Beside it stand the processor seconds of client and
// server together, which a busy machine does not change much.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/publish"
)

const repo = "thox-ai/bench"

var (
	thoxbuild = flag.String("thoxbuild", "bin/thoxbuild", "the program that serves the Hub")
	python    = flag.String("python", ".venv/bin/python", "Python with huggingface_hub; empty leaves it out")
	crane     = flag.String("crane", "", "crane; empty leaves the registry out")
	registry  = flag.String("registry", "docker-registry", "the registry's program")
	pairs     = flag.Int("pairs", 3, "pairs of each comparison")
	large     = flag.Int("large", 1000, "size of the one large file, in MB")
	only      = flag.String("only", "", "run only the comparisons whose names hold this text")
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tmp, err := os.MkdirTemp("", "thoxbuild-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	many, one := filepath.Join(tmp, "many"), filepath.Join(tmp, "one")
	if err := writeVariants(many, 24, 2_500_000); err != nil {
		return err
	}
	if err := writeVariants(one, 1, int64(*large)*1_000_000); err != nil {
		return err
	}
	fmt.Printf("%-34s %10s %10s  %-27s %s\n", "", "thoxbuild", "peer", "peer/thoxbuild (least-most)", "processor seconds")
	for _, c := range []struct {
		name string
		skip bool
		a, b func() (sample, error)
	}{
		{"24 variants, 60 MB, upload_folder", *python == "", func() (sample, error) { return publishHub(ctx, tmp, many) }, func() (sample, error) { return uploadFolder(ctx, tmp, many) }},
		{fmt.Sprintf("one file, %d MB, upload_folder", *large), *python == "", func() (sample, error) { return publishHub(ctx, tmp, one) }, func() (sample, error) { return uploadFolder(ctx, tmp, one) }},
		{"24 variants, 60 MB, crane", *crane == "", func() (sample, error) { return pushOurs(ctx, tmp, many) }, func() (sample, error) { return pushCrane(ctx, tmp, many) }},
	} {
		if c.skip || !strings.Contains(c.name, *only) {
			continue
		}
		if err := compare(c.name, c.a, c.b); err != nil {
			return err
		}
	}
	if strings.Contains("no-op publish", *only) {
		if err := noop(ctx, tmp, many); err != nil {
			return err
		}
	}
	if strings.Contains("downloads", *only) {
		return downloads(ctx, tmp, many)
	}
	return nil
}

// sample is one measured run.
type sample struct{ wall, cpu time.Duration }

// compare alternates two contenders and prints medians and the ratio.
func compare(name string, a, b func() (sample, error)) error {
	var as, bs []sample
	var ratios []float64
	for range *pairs {
		x, err := a()
		if err != nil {
			return fmt.Errorf("%s: thoxbuild: %w", name, err)
		}
		y, err := b()
		if err != nil {
			return fmt.Errorf("%s: peer: %w", name, err)
		}
		as, bs, ratios = append(as, x), append(bs, y), append(ratios, y.wall.Seconds()/x.wall.Seconds())
	}
	median := func(list []sample, of func(sample) time.Duration) float64 {
		var all []time.Duration
		for _, s := range list {
			all = append(all, of(s))
		}
		slices.Sort(all)
		return all[len(all)/2].Seconds()
	}
	wall, cpu := func(s sample) time.Duration { return s.wall }, func(s sample) time.Duration { return s.cpu }
	slices.Sort(ratios)
	spread := fmt.Sprintf("%.2f (%.2f-%.2f)", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	fmt.Printf("%-34s %9.2fs %9.2fs  %-27s %.2f / %.2f\n", name, median(as, wall), median(bs, wall), spread, median(as, cpu), median(bs, cpu))
	return nil
}

func publishHub(ctx context.Context, tmp, dir string) (sample, error) {
	s, err := startHub(tmp)
	if err != nil {
		return sample{}, err
	}
	return s.measure(timed(func() error { return publishTo(ctx, s.url, dir) }))
}

func publishTo(ctx context.Context, url, dir string) error {
	_, err := publish.Run(ctx, publish.Options{Endpoint: url, Repo: repo, RepoType: client.Model, Dir: dir})
	return err
}

func uploadFolder(ctx context.Context, tmp, dir string) (sample, error) {
	s, err := startHub(tmp)
	if err != nil {
		return sample{}, err
	}
	home, err := os.MkdirTemp(tmp, "home-")
	if err != nil {
		return sample{}, err
	}
	cmd := command(ctx, *python, "bench/hub/upload.py", s.url, repo, dir)
	cmd.Env = append(os.Environ(), "HF_HOME="+home, "HF_HUB_DISABLE_PROGRESS_BARS=1")
	out, err := cmd.Output()
	var wall, cpu float64
	if err == nil {
		_, err = fmt.Sscan(string(out), &wall, &cpu)
	}
	return s.measure(sample{time.Duration(wall * 1e9), time.Duration(cpu * 1e9)}, err)
}

func pushOurs(ctx context.Context, tmp, dir string) (sample, error) {
	s, err := startRegistry(tmp)
	if err != nil {
		return sample{}, err
	}
	target, err := oci.ParseTarget("oci://" + s.url + "/" + repo)
	if err != nil {
		return sample{}, err
	}
	return s.measure(timed(func() error {
		b, err := bundle.Read(ctx, dir, bundle.Options{NoGitIDs: true}) // as publish reads it for a registry
		if err != nil {
			return err
		}
		_, err = oci.Push(ctx, oci.PushOptions{Target: target, Bundle: b})
		return err
	}))
}

// pushCrane appends a layer for each variant, eight at once as our own push,
// and lists them in an index.
func pushCrane(ctx context.Context, tmp, dir string) (sample, error) {
	s, err := startRegistry(tmp)
	if err != nil {
		return sample{}, err
	}
	work, err := os.MkdirTemp(tmp, "tar-")
	if err != nil {
		return sample{}, err
	}
	const script = `set -e
cd "$DIR/build"
ls | xargs -P8 -I{} sh -c 'tar cf "$WORK/{}.tar" {} && "$CRANE" append --insecure -f "$WORK/{}.tar" -t "$REPO:{}" >/dev/null 2>&1'
"$CRANE" index append --insecure $(for v in *; do printf -- '-m %s ' "$REPO:$v"; done) -t "$REPO:v1" >/dev/null 2>&1`
	bin, err := filepath.Abs(*crane)
	if err != nil {
		return sample{}, err
	}
	cmd := command(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "DIR="+dir, "WORK="+work, "CRANE="+bin, "REPO="+s.url+"/"+repo)
	took, err := timed(cmd.Run)
	if err == nil {
		took.cpu = processor(cmd)
	}
	return s.measure(took, err)
}

// noop times a publish that finds everything there.
func noop(ctx context.Context, tmp, dir string) error {
	s, err := startHub(tmp)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := publishTo(ctx, s.url, dir); err != nil {
		return err
	}
	var all, used []time.Duration
	for range 5 {
		took, err := timed(func() error { return publishTo(ctx, s.url, dir) })
		if err != nil {
			return err
		}
		all, used = append(all, took.wall), append(used, took.cpu)
	}
	slices.Sort(all)
	slices.Sort(used)
	fmt.Printf("no-op publish, 24 variants: %v (%v-%v), hashing 60 MB included; %v of processor in the client\n",
		all[2].Round(time.Millisecond), all[0].Round(time.Millisecond), all[4].Round(time.Millisecond), used[2].Round(time.Millisecond))
	return nil
}

// downloads prints the server's memory while clients read a 32 MB file.
func downloads(ctx context.Context, tmp, _ string) error {
	dir := filepath.Join(tmp, "medium")
	if err := writeVariants(dir, 1, 32_000_000); err != nil {
		return err
	}
	s, err := startHub(tmp)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := publishTo(ctx, s.url, dir); err != nil {
		return err
	}
	url := s.url + "/" + repo + "/resolve/v1/build/" + variantName(0) + "/weights.bin"
	for _, n := range []int{1, 20, 200} {
		if err := s.resetPeak(); err != nil {
			return err
		}
		start := time.Now()
		if err := fetchAll(ctx, url, n); err != nil {
			return err
		}
		fmt.Printf("%3d downloads of 32 MB at once: the server peaks at %s, %.0f MB/s\n", n, s.peak(), float64(n)*32/time.Since(start).Seconds())
	}
	return nil
}

func fetchAll(ctx context.Context, url string, n int) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	for i := range n {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				errs[i] = err
				return
			}
			resp, err := hc.Do(req)
			if err != nil {
				errs[i] = err
				return
			}
			defer resp.Body.Close()
			got, err := io.Copy(io.Discard, resp.Body)
			if err == nil && got != 32_000_000 {
				err = fmt.Errorf("%s: %d bytes, status %s", url, got, resp.Status)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
