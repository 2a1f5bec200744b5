package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
	"github.com/thox-ai/thoxbuild/hub/xet"
)

// maxShard bounds a shard's body.
const maxShard = 64 << 20

// xetToken hands out a repository's chunk store. Its URL holds an identity that
// changes whenever a chunk is taken away: clients remember for weeks which
// chunks a URL has and would not send them again.
func (c *repoCall) xetToken(write bool) error {
	if !write {
		return &apiError{Status: http.StatusNotFound, Message: "this Hub serves files over plain HTTP only"}
	}
	if err := c.mayCommit(); err != nil {
		return err
	}
	place := c.info.UID + "-" + c.info.CAS
	token, end := c.grant("xet/" + place)
	url := c.base() + "/api/xet/" + place
	h := c.w.Header()
	h.Set("X-Xet-Cas-Url", url)
	h.Set("X-Xet-Access-Token", token)
	h.Set("X-Xet-Token-Expiration", strconv.FormatInt(end, 10))
	return c.reply(http.StatusOK, map[string]any{"casUrl": url, "exp": end, "accessToken": token})
}

// cas is the part of the chunk store that an upload needs. What it does not
// have, 404 tells the client to do another way.
func (c *call) cas(place string, segs []string) error {
	token := strings.TrimPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if err := c.granted("xet/"+place, token); err != nil {
		return err
	}
	uid, id, _ := strings.Cut(place, "-")
	repo, err := c.store.RepoByUID(uid)
	if err != nil {
		return err
	}
	if repo.Info().CAS != id {
		return &apiError{Status: http.StatusForbidden, Message: "this chunk store was cleaned meanwhile; ask for a new token"}
	}
	p := strings.Join(segs, "/")
	if hash, ok := strings.CutPrefix(p, "v1/xorbs/default/"); ok && c.r.Method == http.MethodPost {
		return c.putXorb(repo, hash)
	}
	if p == "v1/shards" && c.r.Method == http.MethodPost {
		return c.putShard(repo)
	}
	return errNoRoute
}

func (c *call) putXorb(repo *store.Repo, hash string) error {
	if _, err := xet.ParseHash(hash); err != nil {
		return badRequest("%v", err)
	}
	t, err := c.store.NewTemp()
	if err != nil {
		return err
	}
	defer t.Close()
	if _, err := io.Copy(t, http.MaxBytesReader(c.w, c.r.Body, xet.MaxXorb)); err != nil {
		return err
	}
	if _, err := xet.Chunks(t.Reader(), t.Size()); err != nil {
		return badRequest("%v", err)
	}
	fresh, err := repo.PutXorb(t, hash)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, map[string]any{"was_inserted": fresh})
}

// putShard builds the files of a shard and keeps them as LFS objects, each
// checked against its SHA-256; the commit that follows names these.
func (c *call) putShard(repo *store.Repo) error {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxShard))
	if err != nil {
		return err
	}
	files, err := xet.Shard(b)
	if err != nil {
		return badRequest("%v", err)
	}
	open := xorbs{repo: repo}
	defer open.close()
	for _, f := range files {
		if _, err := repo.LFSSize(f.SHA256); err == nil {
			continue
		}
		if err := c.build(repo, &open, f); err != nil {
			return fmt.Errorf("file %s of the shard: %w", f.SHA256, err)
		}
	}
	return c.reply(http.StatusOK, map[string]any{"result": 1})
}

func (c *call) build(repo *store.Repo, open *xorbs, f xet.File) error {
	t, err := c.store.NewTemp()
	if err != nil {
		return err
	}
	defer t.Close()
	for _, seg := range f.Segments {
		file, chunks, err := open.get(seg.Xorb.String())
		if err != nil {
			return err
		}
		if int(seg.End) > len(chunks) {
			return badRequest("xorb %s has %d chunks, the shard names chunk %d", seg.Xorb, len(chunks), seg.End-1)
		}
		before := t.Size()
		for _, ch := range chunks[seg.Start:seg.End] {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			data, err := ch.Unpack(file)
			if err != nil {
				return badRequest("xorb %s: %v", seg.Xorb, err)
			}
			if _, err := t.Write(data); err != nil {
				return err
			}
		}
		if t.Size()-before != int64(seg.Unpacked) {
			return badRequest("a segment of xorb %s has %d bytes, the shard names %d", seg.Xorb, t.Size()-before, seg.Unpacked)
		}
	}
	_, err = repo.PutLFS(t, f.SHA256)
	return err
}

// xorbs keeps the xorb that was used last open, as segments come in runs.
type xorbs struct {
	repo   *store.Repo
	hash   string
	file   *os.File
	chunks []xet.Chunk
}

func (x *xorbs) get(hash string) (*os.File, []xet.Chunk, error) {
	if x.file != nil && x.hash == hash {
		return x.file, x.chunks, nil
	}
	x.close()
	f, size, err := x.repo.OpenXorb(hash)
	if errors.Is(err, store.ErrNoObject) {
		return nil, nil, badRequest("xorb %s was never uploaded here", hash)
	}
	if err != nil {
		return nil, nil, err
	}
	chunks, err := xet.Chunks(f, size)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	x.hash, x.file, x.chunks = hash, f, chunks
	return f, chunks, nil
}

func (x *xorbs) close() {
	if x.file != nil {
		x.file.Close()
		x.file = nil
	}
}
