package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// GitHub writes workflow commands, which GitHub shows as annotations.
func (r *Report) GitHub(w io.Writer) error {
	b := bufio.NewWriter(w)
	for i := range r.Findings {
		f := &r.Findings[i]
		command := map[rule.Severity]string{rule.Error: "error", rule.Warning: "warning", rule.Note: "notice"}[f.Severity]
		text := f.Message
		if f.Member != "" {
			text = f.Member + ": " + text
		}
		if p := f.Place(); p != "" {
			text += " (at " + p + ")"
		}
		for _, d := range f.Detail {
			text += "\n" + d
		}
		if f.Fix != "" {
			text += "\nfix: " + f.Fix
		}
		fmt.Fprintf(b, "::%s file=%s,title=%s::%s\n", command, property(f.File), property(f.ID), data(printable(text)))
	}
	return b.Flush()
}

var dataEscape = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
var propertyEscape = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")

func data(s string) string     { return dataEscape.Replace(s) }
func property(s string) string { return propertyEscape.Replace(s) }
