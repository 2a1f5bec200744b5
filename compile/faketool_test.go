package compile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/compile/cache"
	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

// fakeTool in the environment makes this test binary a compiler.
const fakeTool = "THOXBUILD_TEST_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(fakeTool) != "" {
		os.Exit(runFakeTool(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// runFakeTool stands for a compiler, a linker and xcrun. Its output depends on
// its arguments and on what it reads, as a real one's does, and it looks for
// quoted includes where a real one would. Words in a source make it misbehave.
func runFakeTool(args []string) int {
	var out, src string
	var dirs, inputs []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o":
			i++
			out = args[i]
		case a == "-c":
			i++
			src = args[i]
		case strings.HasPrefix(a, "-I"):
			dirs = append(dirs, a[2:])
		case strings.HasSuffix(a, ".o") || strings.HasSuffix(a, ".air"):
			inputs = append(inputs, a)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q\n", args)
	if src != "" {
		inputs = []string{src}
	}
	for _, in := range inputs {
		if src == "" {
			b, err := os.ReadFile(in)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			fmt.Fprintf(&text, "%x\n", sha256.Sum256(b))
			continue
		}
		if err := preprocess(&text, in, dirs, map[string]bool{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	body := text.String()
	switch {
	case strings.Contains(body, "fake:fail"):
		fmt.Fprintf(os.Stderr, "%s:1:1: error: told to fail\n", src)
		return 1
	case strings.Contains(body, "fake:hang"):
		time.Sleep(time.Hour)
	case strings.Contains(body, "fake:die"):
		os.WriteFile(out, []byte("half a fi"), 0o644)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case strings.Contains(body, "fake:nothing"):
		return 0
	case strings.Contains(body, "fake:warn"):
		fmt.Println(src + ": warning: told to warn")
	}
	if err := os.WriteFile(out, []byte(body), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var quotedInclude = regexp.MustCompile(`(?m)^#include "(.*)"`)

func preprocess(to *strings.Builder, file string, dirs []string, seen map[string]bool) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	seen[file] = true
	to.Write(b)
	for _, m := range quotedInclude.FindAllStringSubmatch(string(b), -1) {
		found := false
		for _, d := range append([]string{path.Dir(file)}, dirs...) {
			p := path.Join(d, m[1])
			if _, err := os.Stat(p); err == nil {
				found = true
				if !seen[p] {
					if err := preprocess(to, p, dirs, seen); err != nil {
						return err
					}
				}
				break
			}
		}
		if !found {
			return fmt.Errorf("%s:1:10: fatal error: '%s' file not found", file, m[1])
		}
	}
	return nil
}

// virtualTool is the fake compiler as recorded commands name it.
const virtualTool = "/opt/thox/fake/cc"

// bench is a copy of a fixture kernel with everything that builds it.
type bench struct {
	t       testing.TB
	kernel  *manifests.Kernel
	work    *manifests.Workspace
	cache   *cache.Disk
	exec    *local.Executor
	out     string
	check   Checker
	devices func(string) ([]string, error)
	tools   Tools
	opts    RunOptions
	events  []Event
	// index is the file of the index, which each run opens and saves as a
	// command does.
	index  string
	opened *source.Index
}

func newBench(t testing.TB, dir string) *bench {
	t.Helper()
	kernel := filepath.Join(dir, "kernel")
	if err := os.CopyFS(kernel, os.DirFS("testdata/tiny")); err != nil {
		t.Fatal(err)
	}
	c, err := cache.Open(t.Context(), filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, cache: c, out: filepath.Join(dir, "out"), tools: fakeTools, index: filepath.Join(dir, "index")}
	b.exec = &local.Executor{Scratch: c.Scratch(), Resolve: func(s string) string { return strings.ReplaceAll(s, virtualTool, self) }}
	b.kernel = loadKernel(t, kernel)
	return b
}

func loadKernel(t testing.TB, dir string) *manifests.Kernel {
	t.Helper()
	prj, err := manifests.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return prj.Kernels[0]
}

func fakeTools(v matrix.Variant) (*Toolset, error) {
	tool := func(what string) Tool {
		return Tool{
			Args:         []string{virtualTool, "--fake=" + what, "--target=" + v.Platform.String()},
			Env:          map[string]string{fakeTool: what},
			Fingerprints: map[string]string{what: "fake 1 " + v.Platform.String()},
		}
	}
	ts := &Toolset{
		CXX:           tool("cxx"),
		Torch:         Headers{[]string{"-I/opt/thox/torch-" + v.Torch.String()}, map[string]string{"torch": v.Torch.String()}},
		TorchStandard: map[bool]string{true: "c++17", false: "c++20"}[v.Torch.Minor < 12],
		Link:          Linker{Tool: tool("ld"), After: []string{"-ltorch"}},
	}
	switch v.Compute.Backend {
	case manifests.CUDA:
		ts.Device = &DeviceTool{Tool: tool("nvcc"), Dialect: NVCC}
		if v.Compute.Version.Major < 13 {
			ts.Device.Dialect = ClangCUDA
		}
		ts.Device.Fingerprints["nvcc"] += v.Compute.String()
		ts.DeviceHost = &Headers{[]string{"-I/opt/thox/cuda-" + v.Compute.Version.String()}, map[string]string{"cuda": v.Compute.Version.String()}}
	case manifests.Metal:
		ts.Metal = &MetalTool{Tool: Tool{[]string{virtualTool, "-sdk", "macosx"}, map[string]string{fakeTool: "xcrun"}, map[string]string{"xcrun": "fake 1"}}, Host: tool("cxx")}
	}
	return ts, nil
}

// variants makes variants by name, with all sections of their backend.
func (b *bench) variants(names ...string) []matrix.Variant {
	b.t.Helper()
	var out []matrix.Variant
	for _, n := range names {
		name, err := manifests.ParseVariantName(n)
		if err != nil {
			b.t.Fatal(err)
		}
		v := matrix.Variant{Kernel: b.kernel, Name: name, Torch: name.Version, Compute: name.Compute, Platform: name.Platform}
		for _, s := range b.kernel.SectionsFor(name.Compute.Backend) {
			v.Components = append(v.Components, matrix.Component{Section: s, Archs: s.CUDACapabilities})
		}
		out = append(out, v)
	}
	return out
}

func (b *bench) plan(names ...string) *Plan {
	b.t.Helper()
	p, err := b.tryPlan(names...)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) tryPlan(names ...string) (*Plan, error) {
	b.opened = source.OpenIndex(b.index)
	return NewPlan(Config{
		Kernel: b.kernel, Workspace: b.work, Variants: b.variants(names...), Tools: b.tools,
		OutDir: b.out, Builder: "thoxbuild test", Check: b.check, Devices: b.devices,
		Index: b.opened,
	})
}

func (b *bench) run(names ...string) (*Result, error) {
	b.t.Helper()
	return b.runPlan(context.Background(), b.plan(names...))
}

func (b *bench) runPlan(ctx context.Context, p *Plan) (*Result, error) {
	b.events = nil
	o := b.opts
	o.Executor, o.Cache = b.exec, b.cache
	observe := o.Observer
	o.Observer = ObserverFunc(func(e Event) {
		b.events = append(b.events, e)
		if observe != nil {
			observe.Observe(e)
		}
	})
	res, err := p.Run(ctx, o)
	if serr := b.opened.Save(); serr != nil {
		b.t.Error(serr)
	}
	return res, err
}

// mustRun runs and fails the test on an error.
func (b *bench) mustRun(names ...string) *Result {
	b.t.Helper()
	res, err := b.run(names...)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// ran lists the labels of the actions that ran in the last run, sorted.
func (b *bench) ran() []string {
	var out []string
	for _, e := range b.events {
		if e.Type == EventFinished {
			out = append(out, e.Action.Label)
		}
	}
	slices.Sort(out)
	return out
}

func (b *bench) edit(file, old, new string) {
	b.t.Helper()
	name := filepath.Join(b.kernel.Dir, file)
	text, err := os.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		b.t.Fatalf("%s does not contain %q", file, old)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// hashTree hashes every file below dir by its relative path.
func hashTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		out[rel] = fmt.Sprintf("%v %x", fi.Mode(), sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reopen joins a bench's cache as another process would.
func reopen(t testing.TB, b *bench) *cache.Disk {
	t.Helper()
	c, err := cache.Open(t.Context(), b.cache.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
