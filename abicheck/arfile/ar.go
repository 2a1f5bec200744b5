// Package arfile lists the members of static archives, in the form of GNU ar
// (with "//" long names and "/" symbol tables) and of BSD ar ("#1/N" names).
// Contents are not read. Every size is checked against the file's.
package arfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Member is one file in an archive.
type Member struct {
	Name string
	Off  int64
	Size int64
}

// Magic begins an archive, ThinMagic one that only names its members.
const (
	Magic     = "!<arch>\n"
	ThinMagic = "!<thin>\n"
)

// ErrThin says that the archive holds names but no contents.
var ErrThin = errors.New("thin archive: it holds no contents, only names of files")

const (
	headerSize = 60
	maxTable   = 64 << 20 // the table of long names
	maxName    = 64 << 10
)

// Members lists an archive of the given size, symbol tables left out.
func Members(r io.ReaderAt, size int64) ([]Member, error) {
	magic, err := read(r, 0, int64(len(Magic)), size)
	if err != nil {
		return nil, err
	}
	switch string(magic) {
	case Magic:
	case ThinMagic:
		return nil, ErrThin
	default:
		return nil, fmt.Errorf("ar: not an archive")
	}
	var members []Member
	var long []byte
	for off := int64(len(Magic)); off < size; {
		if size-off == 1 { // padding after the last member
			break
		}
		h, err := read(r, off, headerSize, size)
		if err != nil {
			return members, err
		}
		if h[58] != '`' || h[59] != '\n' {
			return members, fmt.Errorf("ar: no member header at byte 0x%x", off)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		if err != nil || n < 0 || n > size-off-headerSize {
			return members, fmt.Errorf("ar: member at byte 0x%x has a size of %q; %d bytes follow", off, strings.TrimSpace(string(h[48:58])), size-off-headerSize)
		}
		m := Member{Name: strings.TrimRight(string(h[:16]), " "), Off: off + headerSize, Size: n}
		next := m.Off + n + n&1
		switch {
		case m.Name == "/" || m.Name == "/SYM64/" || strings.HasPrefix(m.Name, "__.SYMDEF"):
			off = next
			continue
		case m.Name == "//":
			if n > maxTable {
				return members, fmt.Errorf("ar: table of long names of %d bytes", n)
			}
			if long, err = read(r, m.Off, n, size); err != nil {
				return members, err
			}
			off = next
			continue
		case strings.HasPrefix(m.Name, "#1/"):
			length, err := strconv.ParseInt(m.Name[3:], 10, 64)
			if err != nil || length < 0 || length > n || length > maxName {
				return members, fmt.Errorf("ar: member at byte 0x%x has the name length %q", off, m.Name[3:])
			}
			b, err := read(r, m.Off, length, size)
			if err != nil {
				return members, err
			}
			m.Name = strings.TrimRight(string(b), "\x00")
			m.Off, m.Size = m.Off+length, n-length
			if strings.HasPrefix(m.Name, "__.SYMDEF") {
				off = next
				continue
			}
		case strings.HasPrefix(m.Name, "/"):
			at, err := strconv.Atoi(m.Name[1:])
			if err != nil || at < 0 || at >= len(long) {
				return members, fmt.Errorf("ar: member at byte 0x%x has the long name %q, outside the table", off, m.Name)
			}
			name, _, _ := bytes.Cut(long[at:], []byte("\n"))
			m.Name = strings.TrimSuffix(string(name), "/")
		default:
			m.Name = strings.TrimSuffix(m.Name, "/")
		}
		members = append(members, m)
		off = next
	}
	return members, nil
}

func read(r io.ReaderAt, off, n, size int64) ([]byte, error) {
	if n > size-off {
		return nil, fmt.Errorf("ar: %d bytes at 0x%x reach past the end of the file (%d bytes)", n, off, size)
	}
	b := make([]byte, n)
	if m, err := r.ReadAt(b, off); int64(m) < n {
		return nil, fmt.Errorf("ar: read at 0x%x: %w", off, err)
	}
	return b, nil
}
