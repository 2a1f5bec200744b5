package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Convert turns the bytes of an older kernel file into edition 5. It edits
// the text: comments, order and every value stay as they were, zeros of a
// version included. A file of edition 5 comes back unchanged.
//
// v4 needs only the edition key. v3 may also lack a version, which becomes 1,
// and a framework table, which becomes [torch-noarch]. A file that is none of
// them is refused with its problems, never guessed at: an error inside a v4
// [torch] table must not turn the kernel into a noarch one.
func Convert(file string, data []byte) ([]byte, error) {
	root, prob := parseTOML(file, data)
	if prob != nil {
		return nil, Problems{*prob}
	}
	if root.table.vals["workspace"] != nil {
		return nil, fmt.Errorf("%s: a workspace has no edition to convert", file)
	}
	general := root.table.vals["general"]
	if general != nil && general.table != nil && general.table.vals["edition"] != nil {
		if _, err := ParseBuild(file, data); err != nil {
			return nil, err
		}
		return data, nil
	}
	before, err := ParseBuild(file, data)
	if err != nil && !onlyOlder(err) {
		return nil, err
	}
	if general == nil || general.table == nil || general.table.vals["name"] == nil {
		return nil, err
	}
	if general.table.vals["license"] == nil {
		return nil, Problems{{Pos: general.key, Severity: Error, ID: "build/missing-key", Key: "general.license",
			Message: "[general]: missing key \"license\"", Hint: "add it first; only you know the license"}}
	}
	edits := []string{"edition = 5"}
	if general.table.vals["version"] == nil {
		edits = append(edits, "version = 1")
	}
	out := insertGeneral(data, root, edits)
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, fmt.Errorf("%s: [general] is written in a form that this conversion does not edit; write it as a [general] table", file)
	}
	if !hasFramework(root) {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, "\n[torch-noarch]\n"...)
	}
	after, err := ParseBuild(file, out)
	if err != nil {
		return nil, fmt.Errorf("%s: converted to edition 5 it would not be valid: %w", file, err)
	}
	if before != nil {
		// Nothing but the edition may have changed.
		a, b := *before.Kernel, *after.Kernel
		a.Edition, a.positions, b.positions = b.Edition, nil, nil
		if !reflect.DeepEqual(a, b) {
			return nil, fmt.Errorf("%s: the conversion would change the kernel; add edition = 5 to [general] by hand", file)
		}
	}
	return out, nil
}

func hasFramework(root *node) bool {
	for _, name := range frameworkTables {
		if root.table.vals[name] != nil {
			return true
		}
	}
	return false
}

// onlyOlder reports whether every problem is one that the edition key or the
// rules of v3 explain.
func onlyOlder(err error) bool {
	var ps Problems
	if !errors.As(err, &ps) {
		return false
	}
	for _, p := range ps.Errors() {
		if p.ID != idV3 && p.ID != idNeeds5 {
			return false
		}
	}
	return true
}

// insertGeneral adds lines to the general table in the way it is written: a
// header, dotted keys or an inline table. It returns nil when it finds none.
func insertGeneral(data []byte, root *node, edits []string) []byte {
	bom := len(data) - len(bytes.TrimPrefix(data, []byte("\ufeff")))
	at := scanTOML(data[bom:])
	table, name := at["general"], at[joinPath([]string{"general", "name"})]
	table.val, name.key = table.val+bom, name.key+bom
	insert := func(offset int, text string) []byte {
		return append(append(append([]byte{}, data[:offset]...), text...), data[offset:]...)
	}
	eol := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		eol = "\r\n"
	}
	switch data[table.val] {
	case '[':
		// Before the line of the name, which every file has.
		line := bytes.LastIndexByte(data[:name.key], '\n') + 1
		if line <= table.val {
			return nil
		}
		return insert(line, strings.Join(edits, eol)+eol)
	case '{':
		return insert(table.val+1, " "+strings.Join(edits, ", ")+",")
	default:
		line := bytes.LastIndexByte(data[:name.key], '\n') + 1
		if line < bom {
			line = bom
		}
		return insert(line, "general."+strings.Join(edits, eol+"general.")+eol)
	}
}
