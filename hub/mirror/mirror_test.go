package mirror

import (
	"bytes"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/server"
	"github.com/thox-ai/thoxbuild/hub/store"
)

func TestCopy(t *testing.T) {
	from, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	repo, err := from.Create(store.Kernel, "thox-ai/k", store.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := repo.Stage()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	small, err := st.AddBlob([]byte("small"))
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := from.NewTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer tmp.Close()
	tmp.Write(bytes.Repeat([]byte("large"), 1<<20))
	ptr, err := repo.PutLFS(tmp, "")
	if err != nil {
		t.Fatal(err)
	}
	large, err := st.AddPointer(ptr)
	if err != nil {
		t.Fatal(err)
	}
	want, err := st.Commit(store.CommitRequest{Ref: "refs/heads/main", Time: time.Now(), Summary: "x", Ops: []store.Op{
		{Path: "build/v/a.py", Blob: small}, {Path: "build/v/l.so", Blob: large},
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Store: from})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	defer hs.Close()

	to, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	cl, err := client.New(client.Config{Endpoint: hs.URL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.ParseRepo(client.Kernel, "thox-ai/k")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{From: cl, Repo: r, Revision: "main"}
	res, err := Copy(t.Context(), to, o)
	if err != nil {
		t.Fatal(err)
	}
	if res.Source != want.String() || res.Files != 3 || res.Fetched < ptr.Size {
		t.Errorf("first copy: %+v, want source %s, 3 files, at least %d bytes", res, want, ptr.Size)
	}
	again, err := Copy(t.Context(), to, o)
	if err != nil {
		t.Fatal(err)
	}
	if again.Commit != res.Commit || again.Fetched >= ptr.Size {
		t.Errorf("second copy: %+v, want commit %s and no large file", again, res.Commit)
	}
	// The trees are the same, byte for byte.
	here, err := to.Repo(store.Kernel, "thox-ai/k")
	if err != nil {
		t.Fatal(err)
	}
	id, err := here.Resolve("main")
	if err != nil {
		t.Fatal(err)
	}
	a, err := here.Commit(id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := repo.Commit(want)
	if err != nil {
		t.Fatal(err)
	}
	if a.Tree != b.Tree {
		t.Errorf("tree here is %s, there %s", a.Tree, b.Tree)
	}
	if o.Revision, o.Branch = want.String(), ""; o.Branch == "" {
		if _, err := Copy(t.Context(), to, o); err == nil {
			t.Error("a commit was mirrored without a branch to put it on")
		}
	}
}
