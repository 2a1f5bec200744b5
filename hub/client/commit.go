package client

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Op is one change of a commit. Exactly one of the fields is set.
type Op struct {
	// Add puts a file inline.
	Add *File
	// Point puts an LFS file whose bytes UploadLFS has brought.
	Point *File
	// Delete removes a file, or a folder if it ends in a slash.
	Delete string
}

// NewCommit is a commit to be made.
type NewCommit struct {
	// Branch is the branch, or refs/pr/N.
	Branch string
	// Parent is the head that the operations were planned against. The
	// server refuses the commit (ErrParentMoved) if it is no longer the head,
	// which also makes sending a commit twice harmless.
	Parent               string
	Summary, Description string
	Ops                  []Op
	// CreatePR opens a pull request against Branch instead.
	CreatePR bool
	Progress Progress
}

// Committed is a commit that was made.
type Committed struct {
	Commit         string
	URL            string
	PullRequestURL string
}

// Commit sends the commit once, streaming the files. An error that is
// ErrUncertain leaves open whether the commit was made: read the head, and
// send again only if it is still the parent.
func (c *Client) Commit(ctx context.Context, r Repo, n NewCommit) (Committed, error) {
	path := r.api() + "/commit/" + seg(n.Branch)
	if n.CreatePR {
		path += "?create_pr=1"
	}
	var reply struct {
		CommitOID      string `json:"commitOid"`
		CommitURL      string `json:"commitUrl"`
		PullRequestURL string `json:"pullRequestUrl"`
	}
	size, err := n.size()
	if err != nil {
		return Committed{}, err
	}
	u := &undo{p: n.Progress}
	answered := false
	err = c.do(ctx, call{
		op: fmt.Sprintf("commit to %s of %s", n.Branch, r), method: http.MethodPost, url: c.url(path),
		contentType: "application/x-ndjson", auth: true, patience: 10,
		body: &body{size, func() (io.ReadCloser, error) {
			u.reset()
			return n.stream(u), nil
		}},
		read: func(resp *http.Response) error {
			answered = true
			return (call{result: &reply}).consume(resp)
		},
	})
	if err == nil && !IsCommit(reply.CommitOID) {
		err = fmt.Errorf("commit to %s of %s: the answer names no commit", n.Branch, r)
	}
	if err != nil {
		var status *Error
		definite := errors.As(err, &status) && !transientStatus(status.Status) && status.Status < 500
		if answered || (!definite && !errors.Is(err, errLocal)) {
			err = fmt.Errorf("%w (%w)", err, ErrUncertain)
		}
		return Committed{}, err
	}
	return Committed{reply.CommitOID, reply.CommitURL, reply.PullRequestURL}, nil
}

// errLocal marks a failure of our own files: the request broke off before its
// end, so the server can't have applied it.
var errLocal = errors.New("reading the files to commit")

// The pieces around an inline file's content. Paths go through encoding/json.
func fileLine(path string) (before, after []byte) {
	p, _ := json.Marshal(path)
	before = append([]byte(`{"key":"file","value":{"path":`), p...)
	before = append(before, `,"encoding":"base64","content":"`...)
	return before, []byte("\"}}\n")
}

func line(key string, value any) ([]byte, error) {
	b, err := json.Marshal(struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	}{key, value})
	return append(b, '\n'), err
}

func (n NewCommit) header() ([]byte, error) {
	h := map[string]string{"summary": n.Summary, "description": n.Description}
	if n.Parent != "" {
		h["parentCommit"] = n.Parent
	}
	return line("header", h)
}

func (o Op) plain() ([]byte, error) {
	switch {
	case o.Point != nil:
		return line("lfsFile", map[string]any{"path": o.Point.Path, "algo": "sha256", "oid": o.Point.SHA256, "size": o.Point.Size})
	case len(o.Delete) > 0 && o.Delete[len(o.Delete)-1] == '/':
		return line("deletedFolder", map[string]string{"path": o.Delete})
	case o.Delete != "":
		return line("deletedFile", map[string]string{"path": o.Delete})
	}
	return nil, errors.New("empty operation")
}

// size is the exact length of the stream, so that it can be sent with a
// Content-Length without being held in memory.
func (n NewCommit) size() (int64, error) {
	h, err := n.header()
	if err != nil {
		return 0, err
	}
	total := int64(len(h))
	for _, o := range n.Ops {
		if o.Add != nil {
			before, after := fileLine(o.Add.Path)
			total += int64(len(before)+len(after)) + int64(base64.StdEncoding.EncodedLen(int(o.Add.Size)))
			continue
		}
		b, err := o.plain()
		if err != nil {
			return 0, err
		}
		total += int64(len(b))
	}
	return total, nil
}

// stream writes the commit into a pipe.
func (n NewCommit) stream(p Progress) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		w := bufio.NewWriterSize(pw, 256<<10)
		err := n.write(w, p)
		if err == nil {
			err = w.Flush()
		}
		_ = pw.CloseWithError(err)
	}()
	return pr
}

func (n NewCommit) write(w io.Writer, p Progress) error {
	h, err := n.header()
	if err != nil {
		return err
	}
	if _, err := w.Write(h); err != nil {
		return err
	}
	for _, o := range n.Ops {
		if o.Add != nil {
			if err := writeFile(w, o.Add, p); err != nil {
				return err
			}
			continue
		}
		b, err := o.plain()
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes one inline file and holds it to the digest that was
// planned: a file that changed since must not be published half old, half new.
func writeFile(w io.Writer, f *File, p Progress) error {
	before, after := fileLine(f.Path)
	if _, err := w.Write(before); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return permanent(fmt.Errorf("%w: %w", errLocal, err))
	}
	defer r.Close()
	sum := sha256.New()
	enc := base64.NewEncoder(base64.StdEncoding, w)
	src := &sectionBody{r: io.NewSectionReader(r, 0, f.Size), c: io.NopCloser(nil), left: f.Size, p: p}
	if _, err := io.Copy(enc, io.TeeReader(src, sum)); err != nil {
		if isPermanent(err) {
			return permanent(fmt.Errorf("%w: %s: %w", errLocal, f.Path, err))
		}
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return permanent(fmt.Errorf("%w: %s: changed while it was being published", errLocal, f.Path))
	}
	if err := enc.Close(); err != nil {
		return err
	}
	_, err = w.Write(after)
	return err
}
