package manifests

import (
	"strconv"
	"strings"
)

// pythonName turns a kernel's name into the name of its Python package.
func pythonName(kernel string) string { return strings.ReplaceAll(kernel, "-", "_") }

// versionBranch is the Hub branch of a kernel version.
func versionBranch(version int) string { return "v" + strconv.Itoa(version) }
