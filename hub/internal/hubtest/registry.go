package hubtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// DockerRegistry starts a real registry, the program of that name, for the time
// of a test and returns its host and port: "" where the program is missing.
func DockerRegistry(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("docker-registry")
	if err != nil {
		return ""
	}
	// It cannot choose a port itself, and a free one may be taken before it
	// listens: then it ends, and the next has another.
	for try := 1; ; try++ {
		addr, err := startRegistry(t, bin)
		if err == nil {
			return addr
		}
		if try == 3 {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

func startRegistry(t *testing.T, bin string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr = l.Addr().String()
	l.Close()
	dir := t.TempDir()
	conf := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: %s\nhttp:\n  addr: %s\n",
		filepath.Join(dir, "data"), addr)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(bin, "serve", conf)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	end := func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	for range 500 {
		resp, err := http.Get("http://" + addr + "/v2/")
		if err == nil {
			resp.Body.Close()
			t.Cleanup(func() {
				end()
				if t.Failed() {
					t.Logf("docker-registry: %s", out.String())
				}
			})
			return addr, nil
		}
		select {
		case <-ended:
			return "", fmt.Errorf("docker-registry ended: %s", out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	end()
	return "", errors.New("docker-registry does not answer: " + out.String())
}
