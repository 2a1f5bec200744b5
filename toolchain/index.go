package toolchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// defaultIndex may be set by a release build with -ldflags -X. The tree holds
// no registry's address.
var defaultIndex string

// IndexURL finds the package index: the given flag, THOXBUILD_INDEX_URL,
// PIP_INDEX_URL, UV_DEFAULT_INDEX, pip's configuration, the installed pip's
// own default, and at last the one compiled in.
func IndexURL(ctx context.Context, flag string) (string, error) {
	for _, v := range []string{flag, os.Getenv("THOXBUILD_INDEX_URL"), os.Getenv("PIP_INDEX_URL"), os.Getenv("UV_DEFAULT_INDEX")} {
		if v = strings.TrimSpace(v); v != "" {
			return checkIndexURL(v)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"-c", pipIndex},
		{"-m", "pip", "config", "get", "global.index-url"},
		{"-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"},
	} {
		if out, err := exec.CommandContext(ctx, "python3", args...).Output(); err == nil {
			if v := strings.TrimSpace(string(out)); v != "" {
				return checkIndexURL(v)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if defaultIndex != "" {
		return checkIndexURL(defaultIndex)
	}
	return "", &Error{"find the package index", errors.New("no index is configured and no pip is installed to ask"),
		"set THOXBUILD_INDEX_URL or give --index-url with the address of a PEP 503 simple index"}
}

// pipIndex asks the installed pip in one go: its configuration, else its own
// default. Where it fails, each is asked for in pip's documented way.
const pipIndex = `
from pip._internal.configuration import Configuration
from pip._internal.exceptions import ConfigurationError
from pip._internal.models.index import PyPI
c = Configuration(isolated=False)
c.load()
try:
    print(c.get_value("global.index-url"))
except ConfigurationError:
    print(PyPI.simple_url)
`

func checkIndexURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return "", &Error{"read the package index's address", fmt.Errorf("%q is not an http or https URL", redactURL(s)),
			"give --index-url the address that ends in /simple/"}
	}
	return strings.TrimSuffix(s, "/"), nil
}

// redactURL removes credentials and the query, which may hold a token.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(address)"
	}
	u.User = nil
	u.RawQuery = ""
	return u.String()
}

// Dist is one file of a project on the index.
type Dist struct {
	File   string
	URL    string
	SHA256 string
	Size   int64 // 0 where the index does not say
	Yanked bool
}

// index reads the simple repository API (PEP 691, JSON).
type index struct {
	client *http.Client
	find   func(context.Context) (string, error)

	baseMu sync.Mutex
	base   string

	mu    sync.Mutex
	known map[string]*listing
}

// listing is what the index has of one project.
type listing struct {
	mu    sync.Mutex // held while the page is fetched
	read  bool
	dists []Dist
}

// project lists a project's files. The answer is kept for the process; several
// projects may be asked for at once.
func (x *index) project(ctx context.Context, name string) ([]Dist, error) {
	x.mu.Lock()
	l := x.known[name]
	if l == nil {
		if x.known == nil {
			x.known = map[string]*listing{}
		}
		l = &listing{}
		x.known[name] = l
	}
	x.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read {
		return l.dists, nil
	}
	base, err := x.address(ctx)
	if err != nil {
		return nil, err
	}
	if l.dists, err = x.read(ctx, base+"/"+name+"/", name); err != nil {
		return nil, err
	}
	l.read = true
	return l.dists, nil
}

// address is the index's own, found once.
func (x *index) address(ctx context.Context) (string, error) {
	x.baseMu.Lock()
	defer x.baseMu.Unlock()
	if x.base == "" {
		base, err := x.find(ctx)
		if err != nil {
			return "", err
		}
		x.base = base
	}
	return x.base, nil
}

func (x *index) read(ctx context.Context, address, name string) ([]Dist, error) {
	const maxPage = 64 << 20
	op := "list " + name + " on the package index"
	var body []byte
	var final *url.URL
	err := retry(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/vnd.pypi.simple.v1+json")
		res, err := x.client.Do(req)
		if err != nil {
			return cleanURLError(err)
		}
		defer res.Body.Close()
		if err := checkStatus(res, http.StatusOK); err != nil {
			return err
		}
		if t := res.Header.Get("Content-Type"); !strings.Contains(t, "json") {
			return fmt.Errorf("the index answered with %q, not with PEP 691 JSON", t)
		}
		final = res.Request.URL
		body, err = io.ReadAll(io.LimitReader(res.Body, maxPage))
		return err
	})
	if err != nil {
		return nil, hinted(op, err, "check --index-url and the network; with --offline only fetched packages are used")
	}
	var page struct {
		Files []struct {
			Filename string            `json:"filename"`
			URL      string            `json:"url"`
			Hashes   map[string]string `json:"hashes"`
			Size     int64             `json:"size"`
			Yanked   any               `json:"yanked"`
		} `json:"files"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, hinted(op, err, "the index must speak PEP 691 JSON")
	}
	var dists []Dist
	for _, f := range page.Files {
		u, err := final.Parse(f.URL)
		if err != nil {
			continue
		}
		yanked := f.Yanked != nil && f.Yanked != false
		dists = append(dists, Dist{f.Filename, u.String(), strings.ToLower(f.Hashes["sha256"]), f.Size, yanked})
	}
	return dists, nil
}
