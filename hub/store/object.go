package store

import (
	"bytes"
	"crypto/sha1" // git's object ids are SHA-1 by definition
	"encoding/hex"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// ID is a git object id.
type ID [20]byte

// String is the 40 lower-case hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports an id that names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID reads 40 lower-case hex digits.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 40 || strings.ToLower(s) != s {
		return id, fmt.Errorf("%w id %q: want 40 lower-case hex digits", ErrInvalid, s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return id, fmt.Errorf("%w id %q: want 40 lower-case hex digits", ErrInvalid, s)
	}
	return id, nil
}

// Kind is what an object is; the numbers are those of git's packs.
type Kind uint8

// The kinds that the store writes. Tags are light refs, never objects.
const (
	CommitObject Kind = 1
	TreeObject   Kind = 2
	BlobObject   Kind = 3
)

func (k Kind) String() string {
	switch k {
	case CommitObject:
		return "commit"
	case TreeObject:
		return "tree"
	case BlobObject:
		return "blob"
	}
	return "unknown"
}

// HashObject is the git id of an object.
func HashObject(k Kind, data []byte) ID {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", k, len(data))
	h.Write(data)
	return ID(h.Sum(nil))
}

// TreeEntry is a line of one tree.
type TreeEntry struct {
	Name string
	Dir  bool
	ID   ID
}

func (e TreeEntry) key() string {
	if e.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// encodeTree writes entries in git's order, in which a folder sorts as if its
// name ended in a slash.
func encodeTree(entries []TreeEntry) []byte {
	sort.Slice(entries, func(i, j int) bool { return entries[i].key() < entries[j].key() })
	var b bytes.Buffer
	for _, e := range entries {
		mode := "100644"
		if e.Dir {
			mode = "40000"
		}
		b.WriteString(mode + " " + e.Name + "\x00")
		b.Write(e.ID[:])
	}
	return b.Bytes()
}

func decodeTree(data []byte) ([]TreeEntry, error) {
	var entries []TreeEntry
	for len(data) > 0 {
		sp := bytes.IndexByte(data, ' ')
		nul := bytes.IndexByte(data, 0)
		if sp < 0 || nul < sp+2 || len(data) < nul+21 {
			return nil, fmt.Errorf("%w tree: cut entry", ErrCorrupt)
		}
		e := TreeEntry{Name: string(data[sp+1 : nul])}
		switch mode := string(data[:sp]); mode {
		case "40000":
			e.Dir = true
		case "100644", "100755":
		default:
			return nil, fmt.Errorf("%w tree: mode %q of %q is neither file nor folder", ErrCorrupt, mode, e.Name)
		}
		copy(e.ID[:], data[nul+1:])
		data = data[nul+21:]
		if n := len(entries); n > 0 && entries[n-1].key() >= e.key() {
			return nil, fmt.Errorf("%w tree: %q is out of order", ErrCorrupt, e.Name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Commit is one point of a repository's history.
type Commit struct {
	ID      ID
	Tree    ID
	Parents []ID
	Author  string
	Time    time.Time
	// Summary is the first line of the message, Description the rest.
	Summary, Description string
}

func (c *Commit) message() string {
	if c.Description == "" {
		return c.Summary + "\n"
	}
	return c.Summary + "\n\n" + c.Description + "\n"
}

func (c *Commit) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	who := fmt.Sprintf("%s <%s@users.noreply.local> %d +0000", c.Author, c.Author, c.Time.Unix())
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s", who, who, c.message())
	return b.Bytes()
}

func decodeCommit(id ID, data []byte) (*Commit, error) {
	head, msg, ok := strings.Cut(string(data), "\n\n")
	if !ok {
		return nil, fmt.Errorf("%w commit %s: no message", ErrCorrupt, id)
	}
	c := &Commit{ID: id}
	for line := range strings.SplitSeq(head, "\n") {
		key, val, _ := strings.Cut(line, " ")
		var err error
		switch key {
		case "tree":
			c.Tree, err = ParseID(val)
		case "parent":
			var p ID
			p, err = ParseID(val)
			c.Parents = append(c.Parents, p)
		case "author":
			c.Author, _, _ = strings.Cut(val, " <")
			f := strings.Fields(val[strings.LastIndexByte(val, '>')+1:])
			if len(f) != 2 {
				return nil, fmt.Errorf("%w commit %s: author line", ErrCorrupt, id)
			}
			var sec int64
			sec, err = strconv.ParseInt(f[0], 10, 64)
			c.Time = time.Unix(sec, 0).UTC()
		}
		if err != nil {
			return nil, fmt.Errorf("%w commit %s: %w", ErrCorrupt, id, err)
		}
	}
	msg = strings.TrimSuffix(msg, "\n")
	c.Summary, c.Description, _ = strings.Cut(msg, "\n\n")
	return c, nil
}
