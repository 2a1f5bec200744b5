package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// partsAtOnce is how many parts of one file travel at once.
const partsAtOnce = 4

// maxParts is what object stores allow.
const maxParts = 10_000

// multipartPlan reads the part addresses out of an action's headers: decimal
// keys, 1 to n without gaps, and exactly as many as the size needs.
func multipartPlan(size int64, header map[string]string) (chunk int64, urls []string, err error) {
	chunk, err = strconv.ParseInt(header["chunk_size"], 10, 64)
	if err != nil || chunk <= 0 {
		return 0, nil, fmt.Errorf("chunk_size %q: expected a positive number of bytes", clip(header["chunk_size"], 40))
	}
	byNumber := map[int]string{}
	for k, v := range header {
		if strings.Trim(k, "0123456789") != "" {
			continue
		}
		n, err := strconv.Atoi(k)
		if err != nil || byNumber[n] != "" {
			return 0, nil, fmt.Errorf("part %q is not a number or is there twice", clip(k, 40))
		}
		byNumber[n] = v
	}
	want := (size-1)/chunk + 1
	if int64(len(byNumber)) != want || want > maxParts {
		return 0, nil, fmt.Errorf("the server gave %d part addresses; %d bytes in parts of %d need %d", len(byNumber), size, chunk, want)
	}
	for n := range len(byNumber) {
		u, ok := byNumber[n+1]
		if !ok {
			return 0, nil, fmt.Errorf("the server gave no address for part %d", n+1)
		}
		urls = append(urls, u)
	}
	return chunk, slices.Clip(urls), nil
}

// sendParts is the multipart transfer: every part by a PUT of its own, then
// one call that lists what the store called them.
func (c *Client) sendParts(ctx context.Context, f File, a *lfsAction, opts UploadOptions) error {
	chunk, urls, err := multipartPlan(f.Size, a.Header)
	if err != nil {
		return permanent(err)
	}
	done, err := c.checkTarget(a.Href)
	if err != nil {
		return err
	}
	type part struct {
		PartNumber int    `json:"partNumber"`
		ETag       string `json:"etag"`
	}
	parts := make([]part, len(urls))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	for i, raw := range urls {
		u, err := c.checkTarget(raw)
		if err != nil {
			return err
		}
		off := int64(i) * chunk
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			return c.do(gctx, call{
				op: fmt.Sprintf("send part %d of %d", i+1, len(urls)), method: http.MethodPut, url: u,
				body: counted(f, off, min(chunk, f.Size-off), opts.Progress), retry: true, patience: 3,
				read: func(resp *http.Response) error {
					parts[i] = part{i + 1, resp.Header.Get("ETag")}
					if parts[i].ETag == "" {
						return errors.New("the answer has no ETag")
					}
					return nil
				},
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	b, err := json.Marshal(map[string]any{"oid": f.SHA256, "parts": parts})
	if err != nil {
		return err
	}
	return c.do(ctx, call{
		op: "complete the upload", method: http.MethodPost, url: done, contentType: lfsJSON,
		header: http.Header{"Accept": {lfsJSON}}, body: bytesBody(b), retry: true, patience: 5,
		read: func(*http.Response) error { return nil },
	})
}
