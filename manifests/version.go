package manifests

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a two-component release number such as torch 2.13 or CUDA 13.0.
//
// The released loader accepts exactly two components in build.toml, and every
// variant name carries exactly two, so patch levels and local suffixes have no
// place here. The zero Version means "not set".
type Version struct {
	Major, Minor int
}

// ParseVersion reads "MAJOR.MINOR". Anything else, a missing minor or a third
// component included, is an error that says what was expected.
func ParseVersion(s string) (Version, error) {
	major, minor, ok := strings.Cut(s, ".")
	if !ok || strings.Contains(minor, ".") {
		return Version{}, fmt.Errorf("version %q: expected two components, as in \"2.13\"", s)
	}
	maj, err1 := parseComponent(major)
	min, err2 := parseComponent(minor)
	if err1 != nil || err2 != nil {
		return Version{}, fmt.Errorf("version %q: both components must be plain decimal numbers", s)
	}
	return Version{maj, min}, nil
}

func parseComponent(s string) (int, error) {
	if s == "" || (len(s) > 1 && s[0] == '0') || len(s) > 6 {
		return 0, strconv.ErrSyntax
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.Atoi(s)
}

// MustVersion is ParseVersion for literals in source code and tests.
func MustVersion(s string) Version {
	v, err := ParseVersion(s)
	if err != nil {
		panic(err)
	}
	return v
}

// String prints the form that ParseVersion reads.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Tag prints the form used inside variant names: 2.13 becomes "213".
func (v Version) Tag() string { return fmt.Sprintf("%d%d", v.Major, v.Minor) }

// IsZero reports whether the version is not set.
func (v Version) IsZero() bool { return v == Version{} }

// Compare orders versions numerically, so 2.9 comes before 2.10.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor))
}

// MarshalText implements encoding.TextMarshaler.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Version) UnmarshalText(b []byte) (err error) {
	*v, err = ParseVersion(string(b))
	return err
}
