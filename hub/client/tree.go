package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Entry is a file or folder of a repository's tree.
type Entry struct {
	// Path is relative to the repository, with forward slashes.
	Path string
	Dir  bool
	Size int64
	// OID is the git blob id; for an LFS file that of its pointer.
	OID string
	// SHA256 is the hex digest of an LFS file's bytes, empty for others.
	SHA256 string
}

// ETag is the name of the file's content: the SHA-256 for LFS files, the git
// blob id for others. Caches name blobs so.
func (e Entry) ETag() string {
	if e.SHA256 != "" {
		return e.SHA256
	}
	return e.OID
}

type wireEntry struct {
	Type string `json:"type"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	Path string `json:"path"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

var (
	hex40 = regexp.MustCompile(`^[0-9a-f]{40}$`)
	hex64 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func (w wireEntry) entry() (Entry, error) {
	e := Entry{Path: w.Path, Dir: w.Type == "directory", Size: w.Size, OID: w.OID}
	if err := CheckPath(w.Path); err != nil {
		return e, err
	}
	if e.Dir {
		return e, nil
	}
	if w.LFS != nil {
		e.SHA256, e.Size = w.LFS.OID, w.LFS.Size
		if !hex64.MatchString(e.SHA256) {
			return e, fmt.Errorf("%s: LFS id %q is not a SHA-256", w.Path, clip(e.SHA256, 70))
		}
	}
	if !hex40.MatchString(e.OID) && !hex64.MatchString(e.OID) {
		return e, fmt.Errorf("%s: %q is not a blob id", w.Path, clip(e.OID, 70))
	}
	if e.Size < 0 {
		return e, fmt.Errorf("%s: negative size", w.Path)
	}
	return e, nil
}

// maxPages keeps a server that pages for ever from keeping us.
const maxPages = 10_000

// Tree lists the files and folders at a revision below path (empty for all),
// every page of it. A path that is not there is ErrEntryNotFound.
func (c *Client) Tree(ctx context.Context, r Repo, rev, path string, recursive bool) ([]Entry, error) {
	p := r.api() + "/tree/" + seg(rev)
	if path != "" {
		p += "/" + seg(path)
	}
	if recursive {
		p += "?recursive=true"
	}
	op := fmt.Sprintf("list the files of %s at %s", r, rev)
	first := c.url(p)
	var out []Entry
	seen := map[string]bool{}
	for next, n := first, 0; next != nil; n++ {
		if seen[next.String()] || n >= maxPages {
			return nil, fmt.Errorf("%s: the server's pages do not end", op)
		}
		seen[next.String()] = true
		var page []wireEntry
		var link string
		err := c.do(ctx, call{op: op, method: http.MethodGet, url: next, auth: true, retry: true, read: func(resp *http.Response) error {
			link = resp.Header.Get("Link")
			page = nil
			return (call{result: &page}).consume(resp)
		}})
		if err != nil {
			return nil, err
		}
		for _, w := range page {
			e, err := w.entry()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
			out = append(out, e)
		}
		if next, err = c.nextPage(next, link, func(path string) bool { return path == first.EscapedPath() }); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	return out, nil
}

// nextPage reads a Link header. The next page must be the same call, as same
// has it, on the same origin: the token goes with it.
func (c *Client) nextPage(current *url.URL, link string, same func(path string) bool) (*url.URL, error) {
	for _, part := range strings.Split(link, ",") {
		target, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.Contains(params, `rel="next"`) || !strings.HasPrefix(target, "<") || !strings.HasSuffix(target, ">") {
			continue
		}
		u, err := current.Parse(target[1 : len(target)-1])
		if err != nil {
			return nil, errors.New("the link to the next page is not a URL")
		}
		if origin(u) != origin(current) || !same(u.EscapedPath()) || u.User != nil {
			return nil, fmt.Errorf("the link to the next page leads elsewhere, to %s", redact(u))
		}
		return u, nil
	}
	return nil, nil
}

// PathsInfo looks up files by name. Those that are not there are left out.
func (c *Client) PathsInfo(ctx context.Context, r Repo, rev string, paths []string) ([]Entry, error) {
	b, err := json.Marshal(map[string]any{"paths": paths, "expand": false})
	if err != nil {
		return nil, err
	}
	op := fmt.Sprintf("look up files of %s at %s", r, rev)
	var page []wireEntry
	err = c.do(ctx, call{op: op, method: http.MethodPost, url: c.url(r.api() + "/paths-info/" + seg(rev)), contentType: "application/json", body: bytesBody(b), auth: true, retry: true, result: &page})
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, w := range page {
		e, err := w.entry()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		out = append(out, e)
	}
	return out, nil
}
