package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// xcrun is how every program of Xcode is found and run, for the macOS SDK.
var xcrun = []string{"xcrun", "--sdk", "macosx"}

const (
	xcodeHint = "on a Mac install Xcode 26 and choose it with 'sudo xcode-select -s /Applications/Xcode.app'"
	metalHint = "install Xcode's Metal toolchain: xcodebuild -downloadComponent MetalToolchain"
)

// xcode is an installed Xcode, as far as its programs decide what comes out.
// Where it lies is not part of it: two Macs with one Xcode make one key.
type xcode struct {
	sdk      manifests.Version
	sdkBuild string // such as 25B74
	clang    string // what --version prints, without folders
	linker   string
	// metal is the Metal compiler's version, empty where it was not asked for,
	// and toolchains the identifier that xcrun needs to find it, empty where it
	// needs none.
	metal, toolchains string
}

// findXcode finds the programs that a variant of macOS is made with, and learns
// their versions. The error says what is missing and how to get it.
func findXcode(ctx context.Context, metal bool, floor manifests.Version) (xcode, error) {
	var x xcode
	fail := func(err error, hint string) (xcode, error) { return x, &Error{"find Xcode", err, hint} }
	if _, err := exec.LookPath(xcrun[0]); err != nil {
		return fail(errors.New("xcrun is not on PATH"), "macOS variants are built on a Mac with Xcode 26")
	}
	text, err := runXCRun(ctx, nil, "--show-sdk-version")
	if err != nil {
		return fail(err, xcodeHint)
	}
	if x.sdk, err = sdkVersion(text); err != nil {
		return fail(err, xcodeHint)
	}
	if x.sdk.Compare(floor) < 0 {
		return fail(fmt.Errorf("the macOS SDK is %v, %v or newer is needed", x.sdk, floor), xcodeHint)
	}
	programs := []string{"clang++", "ld"}
	if metal {
		programs = append(programs, "metal", "metallib")
	}
	for _, p := range programs {
		if _, err := runXCRun(ctx, nil, "--find", p); err != nil {
			return fail(err, map[bool]string{false: xcodeHint, true: metalHint}[strings.HasPrefix(p, "metal")])
		}
	}
	for _, q := range []struct {
		to   *string
		args []string
	}{
		{&x.sdkBuild, []string{"--show-sdk-build-version"}},
		{&x.clang, []string{"clang++", "--version"}},
		{&x.linker, []string{"ld", "-v"}},
	} {
		if *q.to, err = runXCRun(ctx, nil, q.args...); err != nil {
			return fail(err, xcodeHint)
		}
	}
	x.clang, x.linker = withoutFolders(x.clang), firstLine(x.linker)
	if metal {
		if err := x.findMetal(ctx); err != nil {
			return fail(err, metalHint)
		}
	}
	return x, nil
}

// sdkVersion reads 26, 26.1 and 26.1.2.
func sdkVersion(text string) (manifests.Version, error) {
	parts := strings.Split(text, ".")
	if len(parts) == 1 {
		parts = append(parts, "0")
	}
	v, err := manifests.ParseVersion(strings.Join(parts[:2], "."))
	if err != nil {
		return v, fmt.Errorf("xcrun --show-sdk-version printed %q: %w", text, err)
	}
	return v, nil
}

// findMetal runs the compiler: since Xcode 26 what xcrun finds may be no more
// than a program that asks for the Metal toolchain to be downloaded. Where the
// toolchain is installed and xcrun does not choose it by itself, its identifier
// in TOOLCHAINS makes it.
func (x *xcode) findMetal(ctx context.Context) error {
	text, err := runXCRun(ctx, nil, "metal", "--version")
	if err != nil {
		component, cerr := run(ctx, nil, "xcrun", "xcodebuild", "-showComponent", "MetalToolchain")
		m := toolchainID.FindStringSubmatch(component)
		if cerr != nil || m == nil {
			return err
		}
		x.toolchains = m[1]
		if text, err = runXCRun(ctx, x.metalEnv(), "metal", "--version"); err != nil {
			return err
		}
	}
	x.metal = withoutFolders(text)
	return nil
}

var toolchainID = regexp.MustCompile(`(?m)^Toolchain Identifier: (\S+)$`)

// metalEnv is the environment that the Metal compiler needs.
func (x *xcode) metalEnv() map[string]string {
	if x.toolchains == "" {
		return nil
	}
	return map[string]string{"TOOLCHAINS": x.toolchains}
}

// withoutFolders leaves out the lines of a version that say where it lies.
func withoutFolders(version string) string {
	var keep []string
	for line := range strings.Lines(version) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "/") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "\n")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func runXCRun(ctx context.Context, env map[string]string, args ...string) (string, error) {
	return run(ctx, env, xcrun[0], append(xcrun[1:len(xcrun):len(xcrun)], args...)...)
}

// run returns what a program prints, on both streams: ld -v uses the second.
func run(ctx context.Context, env map[string]string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	killGroup(cmd)
	cmd.Env = cmd.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	if err == nil {
		return text, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	command := strings.Join(append([]string{program}, args...), " ")
	if text == "" {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return "", fmt.Errorf("%s: %s", command, firstLine(text))
}
