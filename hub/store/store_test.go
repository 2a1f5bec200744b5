package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func open(t testing.TB, dir string, opts ...Options) *Store {
	t.Helper()
	s, err := Open(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func create(t testing.TB, s *Store) *Repo {
	t.Helper()
	r, err := s.Create(Kernel, "thox-ai/k", CreateOptions{Author: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// put commits files to main; a nil content deletes.
func put(r *Repo, parent, summary string, files map[string][]byte) (ID, error) {
	st, err := r.Stage()
	if err != nil {
		return ID{}, err
	}
	defer st.Close()
	req := CommitRequest{Ref: "refs/heads/main", Parent: parent, Author: "t", Time: time.Unix(1e9, 0), Summary: summary}
	for name, data := range files {
		op := Op{Path: name, Kind: DeleteFile}
		switch {
		case len(data) > 1000:
			tmp, err := r.s.NewTemp()
			if err != nil {
				return ID{}, err
			}
			defer tmp.Close()
			if _, err := tmp.Write(data); err != nil {
				return ID{}, err
			}
			p, err := r.PutLFS(tmp, "")
			if err != nil {
				return ID{}, err
			}
			op.Kind = PutFile
			if op.Blob, err = st.AddPointer(p); err != nil {
				return ID{}, err
			}
		case data != nil:
			op.Kind = PutFile
			if op.Blob, err = st.AddBlob(data); err != nil {
				return ID{}, err
			}
		}
		req.Ops = append(req.Ops, op)
	}
	return st.Commit(req)
}

func mustPut(t testing.TB, r *Repo, parent, summary string, files map[string][]byte) ID {
	t.Helper()
	id, err := put(r, parent, summary, files)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func clean(t testing.TB, s *Store) *FsckReport {
	t.Helper()
	rep, err := s.Fsck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Findings {
		t.Errorf("fsck: %s", f)
	}
	return rep
}

func TestCommitRules(t *testing.T) {
	s := open(t, t.TempDir())
	r := create(t, s)
	first, _ := r.Resolve("main")
	a := mustPut(t, r, first.String(), "a", map[string][]byte{"d/a": []byte("a"), "e": []byte("e")})

	// The same request again is the lost answer of the first, not a new commit.
	if id, err := put(r, first.String(), "a", map[string][]byte{"d/a": []byte("a"), "e": []byte("e")}); err != nil || id != a {
		t.Errorf("repeated commit: %v, %v; want %v", id, err, a)
	}
	if id, err := put(r, "", "a", map[string][]byte{"d/a": []byte("a"), "e": []byte("e")}); err != nil || id != a {
		t.Errorf("repeated commit without parent: %v, %v; want %v", id, err, a)
	}
	if _, err := put(r, first.String(), "other", map[string][]byte{"x": []byte("x")}); !errors.Is(err, ErrStale) {
		t.Errorf("commit on a parent that is not the head: %v, want ErrStale", err)
	}
	b := mustPut(t, r, a.String()[:8], "b", map[string][]byte{"e": nil})
	if id, err := put(r, "", "b", map[string][]byte{"e": nil}); err != nil || id != b {
		t.Errorf("repeated deletion: %v, %v; want %v", id, err, b)
	}
	for _, bad := range []map[string][]byte{{"nope": nil}, {"d": []byte("x")}, {"d/a/b": []byte("x")}, {"../x": []byte("x")}, {"/x": []byte("x")}, {".git/config": []byte("x")}, {`a\b`: []byte("x")}} {
		if id, err := put(r, "", "bad", bad); err == nil {
			t.Errorf("commit of %v was accepted as %v", bad, id)
		}
	}
	if head, err := r.Resolve("main"); err != nil || head != b {
		t.Errorf("main is %v, %v; want %v", head, err, b)
	}
	// Reopened, everything is as it was.
	s.Close()
	s = open(t, s.Dir())
	r, err := s.Repo(Kernel, "thox-ai/k")
	if err != nil {
		t.Fatal(err)
	}
	for _, rev := range []string{"main", "refs/heads/main", b.String(), b.String()[:7]} {
		if id, err := r.Resolve(rev); err != nil || id != b {
			t.Errorf("Resolve(%q) = %v, %v; want %v", rev, id, err, b)
		}
	}
	clean(t, s)
}

func TestSecondProcessIsRefused(t *testing.T) {
	s := open(t, t.TempDir())
	if _, err := Open(s.Dir()); !errors.Is(err, ErrLocked) {
		t.Errorf("Open of an open store: %v, want ErrLocked", err)
	}
}

// TestGitReadsTheStore lets git itself judge objects, packs and refs.
func TestGitReadsTheStore(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	s := open(t, t.TempDir())
	r := create(t, s)
	for i := range 5 {
		mustPut(t, r, "", fmt.Sprint("commit ", i), map[string][]byte{
			"a/b/c": fmt.Append(nil, i), "a.x": []byte("dot sorts before slash"), "a0": []byte("and zero after"), "big": bytes.Repeat([]byte{byte(i)}, 5000)})
	}
	if err := r.CreateRef("refs/tags/x/y", mustResolve(t, r, "main")); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		out, err := exec.Command(git, "--git-dir", r.GitDir(), "fsck", "--full", "--strict").CombinedOutput()
		if err != nil {
			t.Errorf("git fsck: %v\n%s", err, out)
		}
		out, err = exec.Command(git, "--git-dir", r.GitDir(), "rev-parse", "main").CombinedOutput()
		if want := mustResolve(t, r, "main").String() + "\n"; err != nil || string(out) != want {
			t.Errorf("git rev-parse main: %q, %v; want %q", out, err, want)
		}
	}
	check()
	if _, err := s.GC(t.Context(), GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	check()
}

func mustResolve(t testing.TB, r *Repo, rev string) ID {
	t.Helper()
	id, err := r.Resolve(rev)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestGC(t *testing.T) {
	s := open(t, t.TempDir())
	r := create(t, s)
	for i := range 4 {
		mustPut(t, r, "", fmt.Sprint(i), map[string][]byte{"f": fmt.Append(nil, i), "big": bytes.Repeat([]byte{byte(i)}, 2000)})
	}
	at := mustResolve(t, r, "main")
	if err := r.CreateRef("refs/heads/side", at); err != nil {
		t.Fatal(err)
	}
	// An object that nothing names, and chunks.
	tmp, err := s.NewTemp()
	if err != nil {
		t.Fatal(err)
	}
	tmp.Write([]byte("nobody"))
	lost, err := r.PutLFS(tmp, "")
	if err != nil {
		t.Fatal(err)
	}
	x, _ := s.NewTemp()
	x.Write([]byte("chunk"))
	if _, err := r.PutXorb(x, lost.SHA256); err != nil {
		t.Fatal(err)
	}
	cas := r.Info().CAS

	// While things are young, they stay.
	rep, err := s.GC(t.Context(), GCOptions{})
	if err != nil || rep.LFS != 0 || rep.Objects != 0 {
		t.Errorf("gc of a young store: %+v, %v; want nothing", rep, err)
	}
	rep, err = s.GC(t.Context(), GCOptions{Grace: -1})
	if err != nil || rep.LFS != 1 || rep.Xorbs != 0 || r.Info().CAS != cas {
		t.Errorf("gc: %+v, %v; want one LFS object and the chunks untouched", rep, err)
	}
	if n := len(r.objs.list()); n != 1 {
		t.Errorf("%d packs after gc, want 1", n)
	}
	if _, err := s.GC(t.Context(), GCOptions{Grace: -1, Xorbs: true}); err != nil || r.Info().CAS == cas {
		t.Errorf("gc of chunks: %v, identity %s; want a new one", err, r.Info().CAS)
	}
	if got := mustResolve(t, r, "side"); got != at {
		t.Errorf("side is %v, want %v", got, at)
	}
	if rep := clean(t, s); rep.Commits != 5 || rep.LFS != 4 {
		t.Errorf("fsck after gc: %+v, want 5 commits and 4 LFS objects", rep)
	}
	// A second run has nothing to do.
	if rep, err := s.GC(t.Context(), GCOptions{Grace: -1, Xorbs: true}); err != nil || *rep != (GCReport{}) {
		t.Errorf("second gc: %+v, %v; want nothing", rep, err)
	}
}

func TestFsckFindsDamage(t *testing.T) {
	for _, what := range []string{"lfs content", "lfs missing", "ref", "pack"} {
		t.Run(what, func(t *testing.T) {
			s := open(t, t.TempDir())
			r := create(t, s)
			mustPut(t, r, "", "x", map[string][]byte{"small": []byte("s"), "big": bytes.Repeat([]byte("b"), 3000)})
			clean(t, s)
			var lfs string
			r.eachLFS(func(path, _ string, _ int64) error { lfs = path; return nil })
			switch what {
			case "lfs content":
				flip(t, lfs, 10)
			case "lfs missing":
				os.Remove(lfs)
			case "ref":
				os.WriteFile(r.refPath("refs/heads/main"), []byte("0123456789012345678901234567890123456789\n"), 0o644)
			case "pack":
				flip(t, r.objs.list()[len(r.objs.list())-1].path, 20)
			}
			rep, err := s.Fsck(t.Context())
			if err != nil || len(rep.Findings) == 0 {
				t.Errorf("damage of the %s was not found: %+v, %v", what, rep, err)
			}
		})
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x41
	os.Chmod(path, 0o644)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestExportImport(t *testing.T) {
	s := open(t, t.TempDir())
	r := create(t, s)
	want := mustPut(t, r, "", "x", map[string][]byte{"small": []byte("s"), "big": bytes.Repeat([]byte("b"), 300000)})
	if err := r.CreateRef("refs/heads/v1", want); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := s.Export(t.Context(), w, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two exports differ")
	}
	to := open(t, t.TempDir())
	if _, err := to.Import(t.Context(), bytes.NewReader(first.Bytes())); err != nil {
		t.Fatal(err)
	}
	got, err := to.Repo(Kernel, "thox-ai/k")
	if err != nil {
		t.Fatal(err)
	}
	if id := mustResolve(t, got, "v1"); id != want {
		t.Errorf("v1 is %v after import, want %v", id, want)
	}
	clean(t, to)
	if _, err := to.Import(t.Context(), bytes.NewReader(first.Bytes())); !errors.Is(err, ErrExists) {
		t.Errorf("second import: %v, want ErrExists", err)
	}
	// An archive that is cut or damaged adds nothing.
	for _, n := range []int{0, 10, first.Len() / 2, first.Len() - 20} {
		empty := open(t, t.TempDir())
		if _, err := empty.Import(t.Context(), bytes.NewReader(first.Bytes()[:n])); err == nil {
			t.Errorf("an archive cut at byte %d was imported", n)
		}
		if left, _ := os.ReadDir(filepath.Join(empty.Dir(), "repos")); len(empty.List()) != 0 || len(left) != 0 {
			t.Errorf("an archive cut at byte %d left %v", n, left)
		}
	}
}

func TestMoveAndDelete(t *testing.T) {
	s := open(t, t.TempDir())
	r := create(t, s)
	if err := s.Move(Kernel, "thox-ai/k", "thox-ai/new"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"thox-ai/new", "thox-ai/k"} {
		if got, err := s.Repo(Kernel, id); err != nil || got != r {
			t.Errorf("%s: %v, %v; want the moved repository", id, got, err)
		}
	}
	if _, err := s.Repo(Model, "thox-ai/new"); !errors.Is(err, ErrRepoNotFound) {
		t.Errorf("other type: %v, want ErrRepoNotFound", err)
	}
	other, err := s.Create(Kernel, "thox-ai/k", CreateOptions{})
	if err != nil || other == r {
		t.Fatalf("the former name cannot be taken: %v", err)
	}
	if err := s.Delete(Kernel, "thox-ai/new"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.GitDir()); !os.IsNotExist(err) {
		t.Errorf("the deleted repository's files are still there: %v", err)
	}
}

func TestMergeConflict(t *testing.T) {
	s := open(t, t.TempDir())
	r := create(t, s)
	base := mustPut(t, r, "", "base", map[string][]byte{"a": []byte("1"), "b": []byte("1")})
	request := func(files map[string][]byte) Discussion {
		st, err := r.Stage()
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		req := CommitRequest{Ref: "refs/heads/main", Parent: base.String(), Author: "u", Time: time.Now(), Summary: "pr"}
		for name, data := range files {
			id, err := st.AddBlob(data)
			if err != nil {
				t.Fatal(err)
			}
			req.Ops = append(req.Ops, Op{Path: name, Blob: id})
		}
		_, d, err := st.OpenWith(req)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	good, bad := request(map[string][]byte{"a": []byte("2")}), request(map[string][]byte{"b": []byte("2")})
	mustPut(t, r, "", "meanwhile", map[string][]byte{"b": []byte("3")})
	if d, err := r.Merge(good.Num, "t"); err != nil || d.Status != "merged" {
		t.Errorf("merge: %+v, %v", d, err)
	}
	if _, err := r.Merge(bad.Num, "t"); !errors.Is(err, ErrConflict) {
		t.Errorf("merge of a conflict: %v, want ErrConflict", err)
	}
	if _, err := r.Merge(good.Num, "t"); !errors.Is(err, ErrInvalid) {
		t.Errorf("second merge: %v, want ErrInvalid", err)
	}
	for name, want := range map[string]string{"a": "2", "b": "3"} {
		e, err := r.Stat(mustResolve(t, r, "main"), name)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := r.Blob(e.ID); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v; want %q", name, data, err, want)
		}
	}
}

func TestTokens(t *testing.T) {
	s := open(t, t.TempDir())
	secret, err := s.AddToken(Token{User: "ann", Role: Write})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir(), "users.json"))
	if err != nil || bytes.Contains(b, []byte(secret)) {
		t.Errorf("users.json holds the token itself (%v)", err)
	}
	if tok, ok := s.FindToken(secret); !ok || tok.User != "ann" {
		t.Errorf("FindToken = %+v, %v", tok, ok)
	}
	if _, ok := s.FindToken(secret + "x"); ok {
		t.Error("a wrong token was found")
	}
	if err := s.RemoveToken("ann", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.FindToken(secret); ok {
		t.Error("a removed token was found")
	}
}
