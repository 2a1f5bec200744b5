package faulty

import "fmt"

// TableLine is one line of the fault table; `make faults` finds it in the
// output of tests by its first word.
func TableLine(name string, runs, survived, faults, reruns int, payload, resent int64) string {
	return fmt.Sprintf("FAULTS|%s|%d|%d|%d|%d|%.1f|%.1f", name, runs, survived, faults, reruns, float64(payload)/1e6, float64(resent)/1e6)
}
