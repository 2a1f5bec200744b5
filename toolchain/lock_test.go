package toolchain

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestLockOfShards: builds that began with the same lock and pin different
// packages keep each other's pins, in whatever order they save.
func TestLockOfShards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolchain.lock")
	pin := func(key, version string) Package {
		return Package{Key: key, Project: "p", Version: version, File: key + "-" + version + ".whl", SHA256: strings.Repeat("a", 64)}
	}
	first := &Lock{}
	first.put(pin("old", "1"))
	if err := first.Save(path); err != nil {
		t.Fatal(err)
	}
	var locks []*Lock
	for range 8 {
		l, err := ReadLock(path)
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, l)
	}
	var wg sync.WaitGroup
	for i, l := range locks {
		wg.Go(func() { // as the members of a kit that are pinned side by side
			l.put(pin(fmt.Sprint("a", i), "1"))
			if err := l.Save(path); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			l.put(pin(fmt.Sprint("b", i), "1"))
			if err := l.Save(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := ReadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.packages); n != 17 {
		t.Errorf("%d pins, expected 17:\n%s", n, got.Bytes())
	}

	// What another has pinned anew is not set back.
	locks[0].put(pin("old", "2"))
	if err := locks[0].Save(path); err != nil {
		t.Fatal(err)
	}
	locks[1].put(pin("new", "1"))
	if err := locks[1].Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err = ReadLock(path); err != nil || got.packages["old"].Version != "2" || got.packages["new"].Version != "1" {
		t.Errorf("%v\n%s", err, got.Bytes())
	}
}
