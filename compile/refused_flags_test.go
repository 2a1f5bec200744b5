package compile

import (
	"strings"
	"testing"
)

func TestCheckFlags(t *testing.T) {
	for _, f := range []string{
		"-O3", "-mavx2", "-march=armv8.2-a+bf16", "-DPLACE=\"/opt/x\"", "-D", "-DX=../y", "-Iinclude", "-Isub/../include", "-I.",
		"-ffile-prefix-map=/a=b", "-Wl,-z,now", "-Xcompiler=-O2,-fno-math-errno", "--use_fast_math", "-Xptxas=-v", "-std=c++20",
		"-gencode=arch=compute_80,code=sm_80",
	} {
		if err := checkFlags([]string{f}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	for f, want := range map[string]string{
		"@flags":                        "a file of flags",
		"-march=native":                 "depend on the machine",
		"-Xcompiler=-O2,-march=native":  "depend on the machine",
		"-o":                            "chooses",
		"-fplugin=x.so":                 "chooses",
		"-I/opt/include":                "place on this machine",
		"/opt/include":                  "place on this machine", // behind -I
		"-I../other":                    "place on this machine",
		"..":                            "place on this machine",
		"-isystem/usr/include":          "place on this machine",
		"-include/opt/all.h":            "place on this machine",
		"--sysroot=/":                   "place on this machine",
		"-MF/tmp/x":                     "place on this machine",
		"-Wp,-MD,/tmp/x":                "place on this machine",
		"-Xcompiler=-isystem/usr/local": "place on this machine",
	} {
		if err := checkFlags([]string{"-O3", f}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", f, err, want)
		}
	}
}
