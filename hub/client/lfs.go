package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
)

// lfsJSON is the media type of the LFS batch API.
const lfsJSON = "application/vnd.git-lfs+json"

type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

type lfsObject struct {
	OID     string `json:"oid"`
	Size    int64  `json:"size"`
	Actions *struct {
		Upload *lfsAction `json:"upload"`
		Verify *lfsAction `json:"verify"`
	} `json:"actions"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// UploadOptions tune UploadLFS.
type UploadOptions struct {
	// Ref is the branch that will name the objects, or empty.
	Ref string
	// Parallel is how many files travel at once, 5 by default.
	Parallel int
	Progress Progress
}

// UploadLFS brings files into the repository's LFS store: those that it has
// already are not sent. It returns how many bytes were sent. When it fails,
// what has arrived stays and the next call does not send it again.
func (c *Client) UploadLFS(ctx context.Context, r Repo, files []File, opts UploadOptions) (sent int64, err error) {
	if opts.Parallel <= 0 {
		opts.Parallel = 5
	}
	seen := map[string]bool{}
	var unique []File
	for _, f := range files {
		if !seen[f.SHA256] {
			seen[f.SHA256] = true
			unique = append(unique, f)
		}
	}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(opts.Parallel)
	for len(unique) > 0 && gctx.Err() == nil {
		n := min(len(unique), maxBatch)
		batch := unique[:n]
		unique = unique[n:]
		transfer, objects, berr := c.lfsBatch(gctx, r, batch, opts.Ref)
		if berr != nil {
			err = berr
			break
		}
		for i, f := range batch {
			obj := objects[i]
			if obj.Actions == nil || obj.Actions.Upload == nil {
				continue // stored already
			}
			g.Go(func() error {
				if err := c.uploadOne(gctx, r, f, transfer, obj, opts); err != nil {
					return fmt.Errorf("upload %s: %w", f.Path, err)
				}
				mu.Lock()
				defer mu.Unlock()
				sent += f.Size
				return nil
			})
		}
	}
	if gerr := g.Wait(); gerr != nil {
		return sent, gerr
	}
	return sent, err
}

// lfsBatch asks where to send objects. The answer is brought into the files'
// order and checked against what was asked.
func (c *Client) lfsBatch(ctx context.Context, r Repo, files []File, ref string) (string, []lfsObject, error) {
	type object struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	in := map[string]any{"operation": "upload", "transfers": []string{"basic", "multipart"}, "hash_algo": "sha256"}
	var objects []object
	for _, f := range files {
		objects = append(objects, object{f.SHA256, f.Size})
	}
	in["objects"] = objects
	if ref != "" {
		in["ref"] = map[string]string{"name": ref}
	}
	b, err := json.Marshal(in)
	if err != nil {
		return "", nil, err
	}
	var reply struct {
		Transfer string      `json:"transfer"`
		Objects  []lfsObject `json:"objects"`
	}
	op := fmt.Sprintf("ask %s where to upload %d files", r, len(files))
	err = c.do(ctx, call{
		op: op, method: http.MethodPost, url: c.url(r.webPath() + ".git/info/lfs/objects/batch"),
		contentType: lfsJSON, header: http.Header{"Accept": {lfsJSON}}, body: bytesBody(b), auth: true, retry: true, result: &reply,
	})
	if err != nil {
		return "", nil, err
	}
	if reply.Transfer == "" {
		reply.Transfer = "basic"
	}
	if reply.Transfer != "basic" && reply.Transfer != "multipart" {
		return "", nil, fmt.Errorf("%s: the server chose transfer %q; expected basic or multipart", op, clip(reply.Transfer, 40))
	}
	byOID := map[string]lfsObject{}
	for _, o := range reply.Objects {
		byOID[o.OID] = o
	}
	out := make([]lfsObject, len(files))
	for i, f := range files {
		o, ok := byOID[f.SHA256]
		switch {
		case !ok:
			return "", nil, fmt.Errorf("%s: the answer leaves out %s (%s)", op, f.Path, f.SHA256)
		case o.Error != nil:
			return "", nil, fmt.Errorf("%s: %s: the server refuses it: %s (code %d)", op, f.Path, clip(c.token.scrub(o.Error.Message), 300), o.Error.Code)
		case o.Size != f.Size:
			return "", nil, fmt.Errorf("%s: %s: the server says %d bytes, the file has %d", op, f.Path, o.Size, f.Size)
		}
		out[i] = o
	}
	return reply.Transfer, out, nil
}

// uploadOne sends one file and verifies it. Upload addresses expire: a 403
// asks for new ones, a few times.
func (c *Client) uploadOne(ctx context.Context, r Repo, f File, transfer string, o lfsObject, opts UploadOptions) error {
	const fresh = 3
	for n := 1; ; n++ {
		err := c.send(ctx, f, transfer, o, opts)
		if !errors.Is(err, ErrForbidden) || n == fresh {
			return err
		}
		c.log("%v; asking for a new upload address", err)
		var objects []lfsObject
		if transfer, objects, err = c.lfsBatch(ctx, r, []File{f}, opts.Ref); err != nil {
			return err
		}
		if o = objects[0]; o.Actions == nil || o.Actions.Upload == nil {
			return nil
		}
	}
}

func (c *Client) send(ctx context.Context, f File, transfer string, o lfsObject, opts UploadOptions) error {
	var err error
	// The transfer that the answer names is a default: servers mix both, and
	// only a multipart action has a chunk_size.
	if _, multi := o.Actions.Upload.Header["chunk_size"]; multi && transfer == "multipart" {
		err = c.sendParts(ctx, f, o.Actions.Upload, opts)
	} else {
		err = c.sendWhole(ctx, f, o.Actions.Upload, opts)
	}
	if err != nil || o.Actions.Verify == nil {
		return err
	}
	return c.verifyLFS(ctx, f, o.Actions.Verify)
}

// sendWhole is the basic transfer: one PUT without our token.
func (c *Client) sendWhole(ctx context.Context, f File, a *lfsAction, opts UploadOptions) error {
	u, err := c.checkTarget(a.Href)
	if err != nil {
		return err
	}
	ctx, h := putHeaders(ctx, origin(u), a.Header)
	return c.do(ctx, call{
		op: "send the file", method: http.MethodPut, url: u, header: h, contentType: "application/octet-stream",
		body: counted(f, 0, f.Size, opts.Progress), retry: true, patience: 3,
		read: func(*http.Response) error { return nil },
	})
}

// putHeaders turns the headers of an action into ones for the request. An
// Authorization among them is bound to the address that it came with.
func putHeaders(ctx context.Context, origin string, in map[string]string) (context.Context, http.Header) {
	h := http.Header{}
	for k, v := range in {
		switch k = http.CanonicalHeaderKey(k); k {
		case "Authorization":
			ctx = context.WithValue(ctx, ownAuthKey{}, ownAuth{origin, v})
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "User-Agent":
			// The request decides these itself.
		default:
			h.Set(k, v)
		}
	}
	return ctx, h
}

// verifyLFS tells the server that an object has arrived, if it asked to hear.
func (c *Client) verifyLFS(ctx context.Context, f File, a *lfsAction) error {
	u, err := c.checkTarget(a.Href)
	if err != nil {
		return err
	}
	b, err := json.Marshal(map[string]any{"oid": f.SHA256, "size": f.Size})
	if err != nil {
		return err
	}
	ctx, h := putHeaders(ctx, origin(u), a.Header)
	h.Set("Accept", lfsJSON)
	return c.do(ctx, call{
		op: "confirm the upload", method: http.MethodPost, url: u, header: h, contentType: lfsJSON,
		body: bytesBody(b), auth: true, retry: true, patience: 3,
		read: func(*http.Response) error { return nil },
	})
}
