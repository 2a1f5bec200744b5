package toolchain

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// cudaMath are NVIDIA's libraries whose headers torch's own CUDA headers
// include (ATen/cuda/CUDAContext.h). Kernels do not link them: torch has them
// loaded.
var cudaMath = []string{"cublas", "cusparse", "cusolver"}

// mathTail holds the archive's directory in each of those wheels.
const mathTail = 128 << 10

// cudaMathHeaders provides the headers of the libraries of a toolkit for a
// processor: one folder for each library. Of each wheel, several hundred MB,
// only the headers are fetched.
func (s *Store) cudaMathHeaders(ctx context.Context, cuda manifests.Version, arch manifests.Arch) ([]string, error) {
	var dirs []string
	for _, lib := range cudaMath {
		p, err := s.cudaMathPackage(ctx, lib, cuda, arch)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s-include-%s-%s-%s", lib, p.Version, arch, p.SHA256[:16])
		dir, err := s.wheelHeaders(ctx, p, name, mathTail, func(member string) string {
			if name := cudaMember(member); strings.HasPrefix(name, "include/") && path.Base(name) != "__init__.py" {
				return name
			}
			return ""
		})
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// cudaMathPackage pins a library of a toolkit. The libraries have release
// numbers of their own; the package cuda-toolkit says which belong to it.
func (s *Store) cudaMathPackage(ctx context.Context, lib string, cuda manifests.Version, arch manifests.Arch) (Package, error) {
	project := "nvidia-" + lib
	if cuda.Major == 12 {
		project += "-cu12"
	}
	return s.pin(ctx, fmt.Sprintf("%s %s %s", project, cuda, arch), project, func(d []Dist) (Dist, string, error) {
		release, err := s.toolkitRelease(ctx, cuda, project)
		if err != nil {
			return Dist{}, "", err
		}
		return newestWheel(d, project, release+".", func(tags string) bool {
			return strings.Contains(tags, "manylinux") && strings.Contains(tags, string(arch))
		})
	})
}

// toolkitRelease reads out of the newest cuda-toolkit X.Y which release of a
// project it requires.
func (s *Store) toolkitRelease(ctx context.Context, cuda manifests.Version, project string) (string, error) {
	dists, err := s.index.project(ctx, "cuda-toolkit")
	if err != nil {
		return "", err
	}
	d, _, err := newestWheel(dists, "cuda-toolkit", cuda.String()+".", func(string) bool { return true })
	if err != nil {
		return "", err
	}
	file, err := s.download(ctx, d)
	if err != nil {
		return "", err
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		return "", s.writeError("read "+d.File, err)
	}
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".dist-info/METADATA") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return "", s.writeError("read "+d.File, err)
		}
		defer r.Close()
		text, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err != nil {
			return "", s.writeError("read "+d.File, err)
		}
		m := regexp.MustCompile(`(?m)^Requires-Dist: ` + regexp.QuoteMeta(project) + ` *==([0-9.]+?)(?:\.\*)?[; \r\n]`).FindSubmatch(append(text, '\n'))
		if m == nil {
			return "", &Error{"choose a release of " + project, fmt.Errorf("%s does not say which belongs to CUDA %v", d.File, cuda),
				"pin " + project + " in toolchain.lock"}
		}
		return string(m[1]), nil
	}
	return "", s.writeError("read "+d.File, errors.New("the wheel has no METADATA"))
}
