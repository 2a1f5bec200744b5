package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// maxOps bounds one commit.
const maxOps = 100_000

// spool takes a file's content as it arrives: small files stay in memory and
// become git blobs, large ones go to disk at once and become LFS objects.
type spool struct {
	s     *store.Store
	limit int64
	mem   bytes.Buffer
	tmp   *store.Temp
}

func (p *spool) Begin() error {
	p.close()
	p.mem.Reset()
	return nil
}

func (p *spool) Write(b []byte) (int, error) {
	if p.tmp == nil && int64(p.mem.Len()+len(b)) >= p.limit {
		t, err := p.s.NewTemp()
		if err != nil {
			return 0, err
		}
		p.tmp = t
		if _, err := p.mem.WriteTo(t); err != nil {
			return 0, err
		}
	}
	if p.tmp != nil {
		return p.tmp.Write(b)
	}
	return p.mem.Write(b)
}

func (p *spool) close() {
	if p.tmp != nil {
		p.tmp.Close()
		p.tmp = nil
	}
}

// keep stages the content and returns the id of what git will hold.
func (p *spool) keep(r *store.Repo, st *store.Stage) (store.ID, error) {
	if p.tmp == nil {
		return st.AddBlob(p.mem.Bytes())
	}
	ptr, err := r.PutLFS(p.tmp, "")
	if err != nil {
		return store.ID{}, err
	}
	return st.AddPointer(ptr)
}

func (c *repoCall) commit(rev string) error {
	if err := c.mayCommit(); err != nil {
		return err
	}
	ref, head, err := c.target(rev, c.createPR())
	if err != nil {
		return err
	}
	st, err := c.repo.Stage()
	if err != nil {
		return err
	}
	defer st.Close()
	req, err := c.readCommit(st, head)
	if err != nil {
		return err
	}
	req.Ref, req.Author, req.Time = ref, c.who.User, c.opts.Now()
	out := map[string]any{"success": true, "hookOutput": ""}
	page := c.base() + "/" + prefix(c.info.Type) + c.info.ID
	var id store.ID
	if c.createPR() {
		var d store.Discussion
		if id, d, err = st.OpenWith(*req); err != nil {
			return err
		}
		out["pullRequestUrl"] = fmt.Sprintf("%s/discussions/%d", page, d.Num)
	} else if id, err = st.Commit(*req); err != nil {
		return err
	}
	out["commitOid"], out["commitUrl"] = id.String(), page+"/commit/"+id.String()
	return c.reply(http.StatusOK, out)
}

// readCommit reads the body while it arrives. Nothing is visible of it yet.
func (c *repoCall) readCommit(st *store.Stage, head store.ID) (*store.CommitRequest, error) {
	sp := &spool{s: c.store, limit: c.opts.Threshold}
	defer sp.close()
	sc := newLineScanner(c.r.Body, sp)
	var req *store.CommitRequest
	for {
		line := sc.line
		l, err := sc.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if (req == nil) != (l.Key == "header") {
			return nil, badRequest("commit body, line %d: the header comes first and once", line)
		}
		if req == nil {
			req = &store.CommitRequest{Summary: l.Summary, Description: l.Description, Parent: l.Parent}
			// A summary of several lines is one line and the rest.
			if first, rest, ok := strings.Cut(strings.TrimSpace(l.Summary), "\n"); ok {
				req.Summary = strings.TrimSpace(first)
				req.Description = strings.TrimSpace(rest + "\n\n" + l.Description)
			}
			continue
		}
		if len(req.Ops) == maxOps {
			return nil, badRequest("more than %d operations in one commit", maxOps)
		}
		op, err := c.operation(st, head, sp, l)
		if err != nil {
			var api *apiError
			if errors.As(err, &api) {
				return nil, err
			}
			return nil, fmt.Errorf("commit body, line %d: %w", line, err)
		}
		req.Ops = append(req.Ops, op)
	}
	if req == nil {
		return nil, badRequest("commit body: no header line")
	}
	return req, nil
}

func (c *repoCall) operation(st *store.Stage, head store.ID, sp *spool, l commitLine) (op store.Op, err error) {
	op.Path = l.Path
	if err := store.CheckPath(strings.TrimSuffix(l.Path, "/")); err != nil {
		return op, err
	}
	switch l.Key {
	case "file":
		switch {
		case l.HasContent:
			op.Blob, err = sp.keep(c.repo, st)
		case l.OldPath != "": // a rename or copy without new content
			var e store.Entry
			if e, err = c.repo.Stat(head, l.OldPath); err == nil && e.Dir {
				err = fmt.Errorf("%s: %w", clip(l.OldPath), store.ErrEntryNotFound)
			}
			op.Blob = e.ID
		default:
			err = badRequest("file %q has no content", clip(l.Path))
		}
	case "lfsFile":
		if l.Algo != "" && l.Algo != "sha256" {
			return op, badRequest("lfsFile %q: algo %q: want sha256", clip(l.Path), clip(l.Algo))
		}
		op.Blob, err = st.AddPointer(store.Pointer{SHA256: l.OID, Size: l.Size})
		if errors.Is(err, store.ErrNoObject) {
			return op, badRequest("lfsFile %q: object %s was never uploaded to this repository", clip(l.Path), clip(l.OID))
		}
	case "deletedFile":
		op.Kind = store.DeleteFile
	case "deletedFolder":
		op.Kind = store.DeleteFolder
	case "deletedEntry":
		op.Kind = store.DeleteFile
		if strings.HasSuffix(l.Path, "/") {
			op.Kind = store.DeleteFolder
		}
	default:
		err = badRequest("unknown operation %q: want file, lfsFile, deletedFile or deletedFolder", clip(l.Key))
	}
	return op, err
}
