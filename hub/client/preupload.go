package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Mode is how the Hub wants a file sent.
type Mode string

// The two ways: inline in the commit, or to the LFS store first.
const (
	Regular Mode = "regular"
	LFS     Mode = "lfs"
)

// Advice is the Hub's answer about one file.
type Advice struct {
	Mode Mode
	// Ignore says that the repository's .gitignore excludes the file.
	Ignore bool
}

// maxBatch is the most files that one preupload or LFS call may name.
const maxBatch = 256

// Preupload asks how each file is to be sent. The answer has the files'
// order. rev must exist.
func (c *Client) Preupload(ctx context.Context, r Repo, rev string, files []File, createPR bool) ([]Advice, error) {
	out := make([]Advice, 0, len(files))
	for len(files) > 0 {
		n := min(len(files), maxBatch)
		got, err := c.preupload(ctx, r, rev, files[:n], createPR)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
		files = files[n:]
	}
	return out, nil
}

func (c *Client) preupload(ctx context.Context, r Repo, rev string, files []File, createPR bool) ([]Advice, error) {
	type ask struct {
		Path   string `json:"path"`
		Sample []byte `json:"sample"`
		Size   int64  `json:"size"`
	}
	var in struct {
		Files []ask `json:"files"`
	}
	for _, f := range files {
		in.Files = append(in.Files, ask{f.Path, f.Sample, f.Size})
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	path := r.api() + "/preupload/" + seg(rev)
	if createPR {
		path += "?create_pr=1"
	}
	var reply struct {
		Files []struct {
			Path         string `json:"path"`
			UploadMode   Mode   `json:"uploadMode"`
			ShouldIgnore bool   `json:"shouldIgnore"`
		} `json:"files"`
	}
	op := fmt.Sprintf("ask %s how to send %d files", r, len(files))
	err = c.do(ctx, call{op: op, method: http.MethodPost, url: c.url(path), contentType: "application/json", body: bytesBody(b), auth: true, retry: true, result: &reply})
	if err != nil {
		return nil, err
	}
	byPath := map[string]Advice{}
	for _, f := range reply.Files {
		if f.UploadMode != Regular && f.UploadMode != LFS {
			return nil, fmt.Errorf("%s: the server wants %s sent as %q; expected regular or lfs", op, f.Path, clip(string(f.UploadMode), 40))
		}
		byPath[f.Path] = Advice{f.UploadMode, f.ShouldIgnore}
	}
	out := make([]Advice, len(files))
	for i, f := range files {
		a, ok := byPath[f.Path]
		if !ok {
			return nil, fmt.Errorf("%s: the answer leaves out %s", op, f.Path)
		}
		if f.Size == 0 {
			a.Mode = Regular // an LFS pointer to nothing is not valid
		}
		out[i] = a
	}
	return out, nil
}
