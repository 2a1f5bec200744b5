package toolchain

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/manifests"
)

// cudaIndex is a package index with small wheels in the layout of NVIDIA's.
// Their programs are scripts that print their arguments.
type cudaIndex struct {
	*httptest.Server
	wheels map[string][]byte // by file name
}

const echoScript = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"

func newCUDAIndex(t *testing.T) *cudaIndex {
	t.Helper()
	x := &cudaIndex{wheels: map[string][]byte{}}
	for _, arch := range []string{"x86_64", "aarch64"} {
		add := func(project, version string, members map[string]string) {
			file := fmt.Sprintf("%s-%s-py3-none-manylinux2014_%s.manylinux_2_17_%s.whl", strings.ReplaceAll(project, "-", "_"), version, arch, arch)
			x.wheels[file] = zipOf(t, members)
		}
		// Two patch releases, and one of another CUDA.
		for _, v := range []string{"13.0.48", "13.0.88", "13.2.51"} {
			add("nvidia-cuda-nvcc", v, map[string]string{
				"nvidia/cu13/bin/nvcc": echoScript, "nvidia/cu13/bin/cudafe++": echoScript, "nvidia/cu13/bin/ptxas": echoScript,
				"nvidia/cu13/bin/fatbinary": echoScript, "nvidia/cu13/include/fatbinary_section.h": "", "nvidia/cu13/lib/unused.a": "",
			})
			add("nvidia-nvvm", v, map[string]string{"nvidia/cu13/nvvm/bin/cicc": echoScript, "nvidia/cu13/nvvm/libdevice/libdevice.10.bc": "BC"})
			add("nvidia-cuda-runtime", v, map[string]string{
				"nvidia/cu13/include/cuda_runtime_api.h": "// " + v + " " + arch, "nvidia/cu13/lib/libcudart.so.13": "elf",
				"nvidia/cu13/lib/libcudart_static.a": "ar",
			})
			add("nvidia-cuda-cccl", v, map[string]string{"nvidia/cu13/include/cccl/cuda/std/array": ""})
			add("nvidia-cuda-crt", v, map[string]string{"nvidia/cu13/include/crt/host_defines.h": ""})
		}
		add("nvidia-cuda-nvcc-cu12", "12.6.85", map[string]string{
			"nvidia/cuda_nvcc/__init__.py": "", "nvidia/cuda_nvcc/include/__init__.py": "", "nvidia/cuda_nvcc/include/crt/host_defines.h": "",
			"nvidia/cuda_nvcc/bin/ptxas": echoScript, "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc": "BC",
		})
		add("nvidia-cuda-runtime-cu12", "12.6.77", map[string]string{
			"nvidia/cuda_runtime/include/__init__.py": "", "nvidia/cuda_runtime/include/cuda_runtime_api.h": "",
			"nvidia/cuda_runtime/lib/libcudart.so.12": "elf",
		})
		// The libraries have release numbers of their own, and newer releases
		// that belong to another toolkit.
		for _, lib := range []string{"cublas", "cusparse", "cusolver"} {
			for _, v := range []string{"4.1.1.3", "4.1.1.4", "4.2.0.1", "9.0.0.1"} {
				add("nvidia-"+lib, v, withRecord("nvidia-"+lib, v, map[string]string{
					"nvidia/cu13/include/" + lib + ".h": "// " + v + " " + arch, "nvidia/cu13/include/__init__.py": "", "nvidia/cu13/lib/lib" + lib + ".so": "elf",
				}))
			}
			add("nvidia-"+lib+"-cu12", "3.1.1.3", withRecord("nvidia-"+lib+"-cu12", "3.1.1.3", map[string]string{"nvidia/" + lib + "/include/" + lib + ".h": "// 12"}))
		}
		add("nvidia-cuda-cccl-cu12", "12.6.77", map[string]string{"nvidia/cuda_cccl/include/__init__.py": "", "nvidia/cuda_cccl/include/cub/cub.cuh": ""})
	}
	toolkit := func(version, suffix, release string) {
		var text strings.Builder
		text.WriteString("Name: cuda-toolkit\n")
		for _, lib := range []string{"cublas", "cusparse", "cusolver"} {
			fmt.Fprintf(&text, "Requires-Dist: nvidia-%s%s==%s.*; sys_platform == 'linux' and extra == '%s'\n", lib, suffix, release, lib)
		}
		x.wheels["cuda_toolkit-"+version+"-py2.py3-none-any.whl"] = zipOf(t, map[string]string{"cuda_toolkit-" + version + ".dist-info/METADATA": text.String()})
	}
	toolkit("13.0.1", "", "4.1.1.3")
	toolkit("13.0.2.0", "", "4.1.1.4")
	toolkit("13.2.0", "", "4.2.0.1")
	toolkit("12.6.3", "-cu12", "3.1.1.3")
	x.Server = httptest.NewServer(http.HandlerFunc(x.serve))
	t.Cleanup(x.Close)
	return x
}

func zipOf(t *testing.T, members map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range members {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withRecord adds the RECORD that headers are checked against.
func withRecord(project, version string, members map[string]string) map[string]string {
	var record strings.Builder
	for name, text := range members {
		sum := sha256.Sum256([]byte(text))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	members[strings.ReplaceAll(project, "-", "_")+"-"+version+".dist-info/RECORD"] = record.String()
	return members
}

func (x *cudaIndex) serve(w http.ResponseWriter, r *http.Request) {
	name := filepath.Base(r.URL.Path)
	if wheel, ok := x.wheels[name]; ok {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wheel))
		return
	}
	files := []any{}
	for file, wheel := range x.wheels {
		if project, _, _ := strings.Cut(file, "-"); strings.ReplaceAll(project, "_", "-") == name {
			sum := sha256.Sum256(wheel)
			files = append(files, map[string]any{"filename": file, "url": "/files/" + file, "size": len(wheel),
				"hashes": map[string]string{"sha256": hex.EncodeToString(sum[:])}})
		}
	}
	w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
	json.NewEncoder(w).Encode(map[string]any{"files": files})
}

func (x *cudaIndex) open(t *testing.T, lock *Lock) *Store {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir(), IndexURL: x.URL, Lock: lock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

var testHost = Tool{
	Args: []string{VirtualRoot + "/zig-1/zig", "c++", "-I" + VirtualRoot + "/it's/c++", "-ffile-prefix-map=" + VirtualRoot + "/=thox/"},
	Env:  map[string]string{"LC_ALL": "C"}, Fingerprint: "host",
}

func cudaRequest(cuda string, arch manifests.Arch) Request {
	return Request{Compute: manifests.Compute{Backend: manifests.CUDA, Version: manifests.MustVersion(cuda)},
		Platform: manifests.Platform{Arch: arch, OS: manifests.Linux}}
}

// tree lists the files of an entry.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNVCCLayout(t *testing.T) {
	lock := &Lock{}
	s := newCUDAIndex(t).open(t, lock)
	c, err := s.cuda(context.Background(), cudaRequest("13.0", manifests.AArch64), testHost, hostParts{})
	if err != nil {
		t.Fatal(err)
	}
	toolkit := filepath.Dir(filepath.Dir(s.Real(c.Compiler.Args[0])))
	want := []string{"bin/cudafe++", "bin/cudafe++.real", "bin/fatbinary", "bin/nvcc", "bin/ptxas", "include/fatbinary_section.h",
		"nvvm/bin/cicc", "nvvm/bin/cicc.real", "nvvm/libdevice/libdevice.10.bc"}
	if got := tree(t, toolkit); !slices.Equal(got, want) {
		t.Errorf("toolkit holds %q\nexpected %q", got, want)
	}
	// The headers are the target's, and of the newest patch release.
	b, err := os.ReadFile(filepath.Join(s.Real(c.Includes[0]), "cuda_runtime_api.h"))
	if err != nil || string(b) != "// 13.0.88 aarch64" {
		t.Errorf("cuda_runtime_api.h is %q, %v", b, err)
	}
	if len(c.Includes) != 5 || !strings.HasSuffix(c.Includes[1], "/include/cccl") {
		t.Errorf("include folders %q, expected include, include/cccl and those of three libraries", c.Includes)
	}
	if !strings.HasSuffix(c.runtime, "/lib/libcudart.so.13") || c.Clang {
		t.Errorf("runtime %q, clang %v", c.runtime, c.Clang)
	}
	for _, key := range []string{"nvidia-cuda-nvcc 13.0 " + hostArch(), "nvidia-cuda-runtime 13.0 aarch64"} {
		if p, ok := lock.get(key); !ok || p.Version != "13.0.88" {
			t.Errorf("lock has %+v for %q, expected 13.0.88", p, key)
		}
	}
	other, err := s.cuda(context.Background(), cudaRequest("13.2", manifests.AArch64), testHost, hostParts{})
	if err != nil {
		t.Fatal(err)
	}
	if other.Compiler.Fingerprint == c.Compiler.Fingerprint || other.HeadersFingerprint == c.HeadersFingerprint {
		t.Error("CUDA 13.2 has the fingerprints of 13.0")
	}
}

// The program that nvcc takes for its host compiler finds its files wherever
// the store lies, and passes every argument on.
func TestHostScript(t *testing.T) {
	s := newCUDAIndex(t).open(t, nil)
	zig := s.Real(VirtualRoot + "/zig-1/")
	if err := script(zig, "zig", echoScript); err != nil {
		t.Fatal(err)
	}
	dir, err := s.hostScript(context.Background(), testHost)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.Real(dir + "/clang++"))
	if err != nil || bytes.Contains(text, []byte(s.Dir())) || bytes.Contains(text, []byte(VirtualRoot)) {
		t.Errorf("the script names a folder of this machine, or a virtual one: %v\n%s", err, text)
	}
	out, err := exec.Command(s.Real(dir+"/clang++"), "-c", "a b.cpp", "").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tools := strings.TrimSuffix(s.Real(VirtualRoot+"/"), "/")
	want := fmt.Sprintf("c++\n-I%[1]s/it's/c++\n-ffile-prefix-map=%[1]s/=thox/\n-c\na b.cpp\n\n", tools)
	if string(out) != want {
		t.Errorf("got %q\nexpected %q", out, want)
	}
}

// The scripts before other programs change what they are for, and nothing
// else.
func TestWrappers(t *testing.T) {
	tests := []struct {
		name, text string
		args, want []string
	}{
		{"stable path", stablePathScript,
			[]string{"--clang", "--orig_src_path_name", "$PWD/cuda/a b.cu", "--orig_src_file_name", "cuda/a b.cu", "", "-x=$HOME"},
			[]string{"--clang", "--orig_src_path_name", "/thox/cuda/a b.cu", "--orig_src_file_name", "cuda/a b.cu", "", "-x=$HOME"}},
		{"no path", stablePathScript, []string{"--version"}, []string{"--version"}},
		{"no arguments", stablePathScript, nil, nil},
		{"fatbinary", fatbinaryScript,
			[]string{"--create", "f.bin", "--image=profile=sm_90a,file=/t/a b.o", "--image=profile=compute_90,file=b.s", "-64"},
			[]string{"--create", "f.bin", "--image3=kind=elf,sm=90a,file=/t/a b.o", "--image3=kind=ptx,sm=90,file=b.s", "-64"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := script(dir, "prog", echoScript); err != nil {
				t.Fatal(err)
			}
			if err := wrapPrograms(dir, tt.text, "prog"); err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, a := range tt.args {
				args = append(args, strings.Replace(a, "$PWD", dir, 1))
			}
			cmd := exec.Command(filepath.Join(dir, "prog"), args...)
			cmd.Dir = dir
			cmd.Env = []string{"PWD=" + dir}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := ""
			for _, w := range tt.want {
				want += w + "\n"
			}
			if len(tt.want) == 0 {
				want = "\n" // printf without arguments
			}
			if string(out) != want {
				t.Errorf("got %q\nexpected %q", out, want)
			}
		})
	}
}

func TestClangToolkitLayout(t *testing.T) {
	s := newCUDAIndex(t).open(t, nil)
	dir, err := s.clangToolkit(context.Background(), manifests.MustVersion("12.6"), manifests.AArch64)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bin/fatbinary", "bin/fatbinary.real", "bin/ptxas", "include/crt/host_defines.h", "include/cub/cub.cuh", "include/cuda_runtime_api.h",
		"include/curand_mtgp32_kernel.h", "lib/libcudart.so.12", "nvvm/libdevice/libdevice.10.bc"}
	if got := tree(t, s.Real(dir+"/")); !slices.Equal(got, want) {
		t.Errorf("toolkit holds %q\nexpected %q", got, want)
	}
	for _, p := range []string{"bin/ptxas", "bin/fatbinary.real"} {
		if fi, err := os.Stat(s.Real(dir + "/" + p)); err != nil || fi.Mode()&0o111 == 0 {
			t.Errorf("%s can't be run: %v", p, err)
		}
	}
}

func TestUnknownCUDARelease(t *testing.T) {
	s := newCUDAIndex(t).open(t, nil)
	for version, want := range map[string]string{"11.8": "recipes for CUDA 12 and 13", "13.9": "no fitting wheel of nvidia-cuda-nvcc 13.9"} {
		_, err := s.cuda(context.Background(), cudaRequest(version, manifests.X86_64), testHost, hostParts{})
		if e, _ := err.(*Error); e == nil || e.Hint == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("CUDA %s: error %v, expected %q and a hint", version, err, want)
		}
	}
}

// The headers of the libraries are of the release that belongs to the toolkit,
// for the target's processor, and without the library.
func TestCUDAMathHeaders(t *testing.T) {
	x := newCUDAIndex(t)
	lock := &Lock{}
	s := x.open(t, lock)
	for cuda, want := range map[string]string{"13.0": "// 4.1.1.4 aarch64", "13.2": "// 4.2.0.1 aarch64", "12.6": "// 12"} {
		dirs, err := s.cudaMathHeaders(t.Context(), manifests.MustVersion(cuda), manifests.AArch64)
		if err != nil || len(dirs) != 3 {
			t.Fatalf("CUDA %s: folders %q, %v", cuda, dirs, err)
		}
		for i, lib := range cudaMath {
			b, err := os.ReadFile(s.Real(dirs[i] + "/include/" + lib + ".h"))
			if err != nil || string(b) != want {
				t.Errorf("CUDA %s: %s.h is %q, %v; expected %q", cuda, lib, b, err, want)
			}
			if got := tree(t, s.Real(dirs[i]+"/")); len(got) != 2 {
				t.Errorf("CUDA %s: the entry of %s holds %q, expected its header and %s", cuda, lib, got, recordFile)
			}
		}
	}
	if p, _ := lock.get("nvidia-cublas 13.0 aarch64"); p.Version != "4.1.1.4" || p.Record == "" {
		t.Errorf("the lock has %+v, expected 4.1.1.4 with the digest of RECORD", p)
	}
	// A lock decides, and the toolkit's package is not asked then.
	delete(x.wheels, "cuda_toolkit-13.0.2.0-py2.py3-none-any.whl")
	s = x.open(t, lock)
	if dirs, err := s.cudaMathHeaders(t.Context(), manifests.MustVersion("13.0"), manifests.AArch64); err != nil || !strings.Contains(dirs[0], "4.1.1.4") {
		t.Errorf("with a lock: %q, %v", dirs, err)
	}
	for _, file := range []string{"cuda_toolkit-13.0.1-py2.py3-none-any.whl", "cuda_toolkit-13.0.2.0-py2.py3-none-any.whl"} {
		x.wheels[file] = zipOf(t, map[string]string{"cuda_toolkit.dist-info/METADATA": "Name: cuda-toolkit\n"})
	}
	_, err := x.open(t, nil).cudaMathHeaders(t.Context(), manifests.MustVersion("13.0"), manifests.AArch64)
	if e, _ := err.(*Error); e == nil || e.Hint == "" || !strings.Contains(err.Error(), "does not say which belongs to CUDA 13.0") {
		t.Errorf("a toolkit without the requirement: %v", err)
	}
}
