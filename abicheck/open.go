package abicheck

import (
	"context"
	"debug/elf"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/ianlancetaylor/demangle"

	"github.com/thox-ai/thoxbuild/abicheck/arfile"
	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/isa"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/pefile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// source is bytes of a known kind: a file, or a member of one.
type source struct {
	file   string // for findings
	member string
	name   string // the base name counts
	data   io.ReaderAt
	size   int64
	kind   kind
	pkg    *rule.Package
	claim  claim
}

func (s source) in(member, name string, k kind, data io.ReaderAt, size int64) source {
	m := s
	if m.member != "" {
		member = m.member + "!" + member
	}
	m.member, m.name, m.kind, m.data, m.size = member, name, k, data, size
	return m
}

// binary checks a source, or everything inside it.
func (r *run) binary(ctx context.Context, src source) error {
	switch src.kind {
	case arKind:
		return r.archive(ctx, src)
	case zipKind:
		return r.wheel(ctx, src)
	case fatKind:
		return r.fat(ctx, src)
	case bitcodeKind:
		// Elsewhere bitcode is data, such as the device library of CUDA.
		if path.Ext(slashed(src.name)) == ".o" {
			r.bitcode(src.subject())
		}
		return nil
	}
	s := src.subject()
	format, err := parse(s, src.kind)
	if ofMachine(err) {
		return err
	}
	if err != nil {
		r.broken(s, format, err)
		return nil
	}
	s.Want = want(s, src.claim, r.o)
	return r.subject(ctx, s, format)
}

func (s source) subject() *rule.Subject {
	return &rule.Subject{
		File: s.file, Member: s.member, Name: path.Base(slashed(s.name)),
		Data: s.data, Size: s.size, Package: s.pkg,
	}
}

// parse reads the headers; a panic of a reader is a fault of the file.
func parse(s *rule.Subject, k kind) (format string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the reader failed on this file, which is a bug in thoxbuild: %v", v)
		}
	}()
	switch k {
	case elfKind:
		s.ELF, err = elffile.New(s.Data, s.Size)
		return "elf", err
	case machoKind:
		s.MachO, err = machofile.New(s.Data, s.Size)
		return "mach-o", err
	case peKind:
		s.PE, err = pefile.New(s.Data, s.Size)
		return "pe", err
	}
	var head [sniffLen]byte
	n, _ := s.Data.ReadAt(head[:min(s.Size, sniffLen)], 0)
	if why := hollow(s.Name, head[:n]); why != "" {
		return "", errors.New(why)
	}
	return "", errors.New("unknown kind of file")
}

// bitcode refuses an object that is nothing but what a linker's plugin makes
// code of later.
func (r *run) bitcode(s *rule.Subject) {
	f := isa.BytecodeOnly(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, f)
	r.files = append(r.files, fileOf(s, "bitcode"))
}

// broken records that a file could not be read.
func (r *run) broken(s *rule.Subject, format string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, formatFinding(s, err))
	r.files = append(r.files, fileOf(s, format))
}

func (r *run) archive(ctx context.Context, src source) error {
	members, err := arfile.Members(src.data, src.size)
	if err != nil {
		r.broken(src.subject(), "ar", err)
	}
	for _, m := range members {
		var head [sniffLen]byte
		data := io.NewSectionReader(src.data, m.Off, m.Size)
		n, _ := data.ReadAt(head[:], 0)
		if k := sniff("", head[:n]); k == elfKind || k == machoKind || k == bitcodeKind {
			if err := r.binary(ctx, src.in(m.Name, m.Name, k, data, m.Size)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) fat(ctx context.Context, src source) error {
	slices, err := machofile.Slices(src.data, src.size)
	if err != nil {
		r.broken(src.subject(), "mach-o", err)
		return nil
	}
	for _, sl := range slices {
		data := io.NewSectionReader(src.data, sl.Off, sl.Size)
		var head [sniffLen]byte
		n, _ := data.ReadAt(head[:], 0)
		k := sniff("", head[:n])
		if k != machoKind && k != arKind {
			r.broken(src.in(sl.Arch, src.name, k, data, sl.Size).subject(), "mach-o", fmt.Errorf("the slice for %s is no Mach-O file", sl.Arch))
			continue
		}
		if err := r.binary(ctx, src.in(sl.Arch, src.name, k, data, sl.Size)); err != nil {
			return err
		}
	}
	return nil
}

// archName names the processor of a subject for reports.
func archName(s *rule.Subject) string {
	switch {
	case s.ELF != nil && s.ELF.Machine == elf.EM_X86_64:
		return "x86_64"
	case s.ELF != nil && s.ELF.Machine == elf.EM_AARCH64:
		return "aarch64"
	case s.ELF != nil:
		return s.ELF.Machine.String()
	case s.MachO != nil:
		return s.MachO.Arch()
	case s.PE != nil && s.PE.Machine == pe.IMAGE_FILE_MACHINE_AMD64:
		return "x86_64"
	case s.PE != nil && s.PE.Machine == pe.IMAGE_FILE_MACHINE_ARM64:
		return "aarch64"
	case s.PE != nil:
		return fmt.Sprintf("pe machine 0x%x", s.PE.Machine)
	}
	return ""
}

// complete fills in the readable form of a mangled symbol.
func complete(f *Finding) {
	const longest = 16 << 10
	if f.Demangled != "" || len(f.Symbol) > longest {
		return
	}
	if s, err := demangle.ToString(f.Symbol, demangle.LLVMStyle, demangle.MaxLength(14)); err == nil && s != f.Symbol {
		f.Demangled = s
	}
}
