package lock

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Digest is the identity of a whole variant: "sha256:" and 64 hex digits.
//
// It is the SHA-256 of the text that sha256sum prints for the variant's files
// in the order of their names: hex digest, two spaces, path, newline. The
// metadata is among them; bytecode is not, nor is the signature, which may be
// added later and vouches for itself. So anyone can check it with a shell.
type Digest string

var digestRE = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseDigest checks the form of a digest.
func ParseDigest(s string) (Digest, error) {
	if !digestRE.MatchString(s) {
		return "", fmt.Errorf("digest %q: expected sha256: and 64 lower-case hex digits", s)
	}
	return Digest(s), nil
}

// VariantDigest computes a variant's digest from the hex SHA-256 of each of
// its files, by path relative to the variant.
func VariantDigest(files map[string]string) Digest {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if Covers(name) {
			_, _ = io.WriteString(h, files[name]+"  "+name+"\n")
		}
	}
	return Digest("sha256:" + hex.EncodeToString(h.Sum(nil)))
}

// Covers reports whether the variant's digest includes a file.
func Covers(name string) bool {
	return name == manifests.MetadataFile || !manifests.SkipDigest(name)
}
