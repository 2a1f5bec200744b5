package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
)

// format is the number of the layout that doc.go describes.
const format = 1

// Options tune Open.
type Options struct {
	// Fault is called before each change of the file system, with the step
	// (create, write, sync, rename, syncdir, mkdir, remove) and the path. An
	// error is returned as if the step had failed. It is for fault tests.
	Fault func(op, path string) error
}

// Store is an open store directory. Its methods may be called at once from
// many goroutines; other processes are kept out until Close.
type Store struct {
	dir    string
	disk   *disk
	lock   *flock.Flock
	meta   meta
	secret []byte

	mu    sync.RWMutex
	index index
	open  map[string]*Repo // by uid
	users users
}

type meta struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
}

// Open opens the store in dir, which is made if it is missing. An unfinished
// upload of an earlier process is removed.
func Open(dir string, opts ...Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, open: map[string]*Repo{}}
	s.disk = &disk{tmp: filepath.Join(dir, "tmp")}
	for _, o := range opts {
		s.disk.fault = o.Fault
	}
	if err := s.disk.mkdir(s.disk.tmp); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.lock = flock.New(filepath.Join(dir, "lock"))
	got, err := s.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if !got {
		return nil, fmt.Errorf("open store %s: %w", dir, ErrLocked)
	}
	if err := s.load(); err != nil {
		s.lock.Unlock()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) load() error {
	left, err := filepath.Glob(filepath.Join(s.disk.tmp, "new-*"))
	if err != nil {
		return err
	}
	for _, name := range left {
		os.Remove(name)
	}
	if err := s.disk.mkdir(filepath.Join(s.dir, "repos")); err != nil {
		return err
	}
	err = readJSON(filepath.Join(s.dir, "hub.json"), &s.meta)
	if errors.Is(err, fs.ErrNotExist) {
		s.meta = meta{Format: format, ID: randomHex(8)}
		err = s.writeJSON("hub.json", s.meta, 0o644)
	}
	if err != nil {
		return err
	}
	if s.meta.Format != format {
		return fmt.Errorf("format %d: this version knows format %d", s.meta.Format, format)
	}
	secret, err := os.ReadFile(filepath.Join(s.dir, "secret"))
	if errors.Is(err, fs.ErrNotExist) {
		secret = []byte(randomHex(32))
		err = s.disk.writeFile(filepath.Join(s.dir, "secret"), secret, 0o600)
	}
	if err != nil {
		return err
	}
	s.secret = secret
	if err := readJSON(filepath.Join(s.dir, "index.json"), &s.index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := readJSON(filepath.Join(s.dir, "users.json"), &s.users); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close lets other processes open the store.
func (s *Store) Close() error { return s.lock.Unlock() }

// Dir is the absolute path of the store.
func (s *Store) Dir() string { return s.dir }

// ID is the store's identity; another store never has the same.
func (s *Store) ID() string { return s.meta.ID }

// Secret is the key that capability URLs are signed with.
func (s *Store) Secret() []byte { return s.secret }

// NewTemp is an unfinished file for bytes that have no name yet.
func (s *Store) NewTemp() (*Temp, error) {
	t, err := s.disk.temp()
	if err != nil {
		return nil, err
	}
	return newTemp(t), nil
}

func (s *Store) writeJSON(name string, v any, mode os.FileMode) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return s.disk.writeFile(filepath.Join(s.dir, name), append(b, '\n'), mode)
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w %s: %w", ErrCorrupt, filepath.Base(path), err)
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
