package abicheck

import (
	"bufio"
	"encoding/csv"
	"io"
	"path/filepath"
	"strings"
)

// installed gives files of an installed package the claims of the wheel that
// they came from: NAME.dist-info/WHEEL has its tags, RECORD its files.
func installed(inputs []input, distInfos []string) {
	byPath := map[string]int{}
	for i := range inputs {
		if inputs[i].claim.variant == nil && !inputs[i].dir {
			byPath[inputs[i].path] = i
		}
	}
	for _, dir := range distInfos {
		tags := installedTags(filepath.Join(dir, "WHEEL"))
		if tags == nil {
			continue
		}
		root := filepath.Dir(dir)
		for _, name := range recorded(filepath.Join(dir, "RECORD")) {
			if i, ok := byPath[filepath.Join(root, filepath.FromSlash(name))]; ok {
				inputs[i].claim = claim{from: "wheel tags of " + strings.TrimSuffix(filepath.Base(dir), ".dist-info"), wheel: tags}
			}
		}
	}
}

// installedTags reads the Tag lines of a WHEEL file; nil without any.
func installedTags(name string) *wheelTags {
	f, err := openFile(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var python, abi, platform []string
	sc := bufio.NewScanner(io.LimitReader(f, maxMetadata))
	for sc.Scan() {
		tag, ok := strings.CutPrefix(sc.Text(), "Tag: ")
		if parts := strings.Split(strings.TrimSpace(tag), "-"); ok && len(parts) == 3 {
			python, abi, platform = append(python, parts[0]), append(abi, parts[1]), append(platform, parts[2])
		}
	}
	if python == nil {
		return nil
	}
	return newWheelTags(strings.Join(python, "."), strings.Join(abi, "."), strings.Join(platform, "."))
}

// recorded lists the paths in a RECORD file; what cannot be read is left out.
func recorded(name string) (paths []string) {
	f, err := openFile(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	const maxRecord = 64 << 20
	r := csv.NewReader(io.LimitReader(f, maxRecord))
	r.FieldsPerRecord = -1
	for {
		row, err := r.Read()
		if err != nil {
			return paths
		}
		if len(row) > 0 {
			paths = append(paths, row[0])
		}
	}
}
