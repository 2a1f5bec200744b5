package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// sample is one run of a program.
type sample struct {
	wall, cpu time.Duration
	peak      int64
}

// compareISA times the whole instruction set pass beside a disassembler.
func compareISA(ctx context.Context, file, objdump string, runs int) error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	code, err := codeBytes(file)
	if err != nil {
		return err
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d MB, %d MB of it code; a check may take %d MB\n", filepath.Base(file), st.Size()/1e6, code/1e6, (st.Size()+64<<20)/1e6)
	var mine []sample
	for range runs {
		s, err := measure(ctx, me, "-self", "isa", "-file", file)
		if err != nil {
			return err
		}
		mine = append(mine, s)
	}
	rate := printRate("thoxbuild abicheck, facts and ISA", code, mine)
	if objdump == "none" {
		return nil
	}
	program, err := exec.LookPath(objdump)
	if err != nil {
		fmt.Println("no peer:", err)
		return nil
	}
	s, err := measure(ctx, program, "-d", "--no-show-raw-insn", file)
	if err != nil {
		return err
	}
	peer := printRate("objdump -d", code, []sample{s})
	fmt.Printf("ratio per core %.1f\n", rate/peer)
	return nil
}

// measure runs a program to its end, its output thrown away.
func measure(ctx context.Context, name string, args ...string) (s sample, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	s.wall, s.cpu = time.Since(start), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.peak = ru.Maxrss * 1024
	}
	return s, nil
}

// printRate prints the samples of a program and returns the median rate of one
// core in bytes a second.
func printRate(name string, code int64, all []sample) float64 {
	slices.SortFunc(all, func(a, b sample) int { return int(a.cpu - b.cpu) })
	rate := func(s sample) float64 { return float64(code) / s.cpu.Seconds() }
	mid, peak := all[len(all)/2], int64(0)
	for _, s := range all {
		peak = max(peak, s.peak)
	}
	fmt.Printf("%-34s %6.1f MB/s per core (%.1f to %.1f)   wall %.2f s   cpu %.2f s   peak %d MB\n",
		name, rate(mid)/1e6, rate(all[len(all)-1])/1e6, rate(all[0])/1e6, mid.wall.Seconds(), mid.cpu.Seconds(), peak/1e6)
	return rate(mid)
}

// codeBytes adds up the executable sections of a library.
func codeBytes(file string) (n int64, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Type != elf.SHT_NOBITS {
			n += int64(s.Size)
		}
	}
	if n == 0 {
		return 0, errors.New(file + " has no code")
	}
	return n, nil
}
