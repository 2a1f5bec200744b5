package abicheck

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// Object is an object file of a link that the builder makes.
type Object struct {
	Path string
	// Unit is the ISA unit that the object belongs to, nil for the baseline.
	Unit *Unit
}

// CheckObjects checks the objects of one link, in command-line order, before
// it happens, so that a leak is found while there is still somebody to blame.
// Roles are declared here, not inferred.
func CheckObjects(ctx context.Context, objects []Object, o *Options) (*Report, error) {
	return checkLink(ctx, objects, "", o)
}

// CheckLibrary checks what was linked from objects: every function above the
// baseline must come from a declared unit. The objects are only compared with.
func CheckLibrary(ctx context.Context, objects []Object, library string, o *Options) (*Report, error) {
	return checkLink(ctx, objects, library, o)
}

func checkLink(ctx context.Context, objects []Object, output string, o *Options) (*Report, error) {
	r := newRun(o)
	link := &rule.Link{}
	type opened struct {
		s      *rule.Subject
		format string
	}
	var all []opened
	open := func(path string) (*rule.Subject, error) {
		k, err := sniffFile(path)
		if err != nil {
			return nil, err
		}
		f, err := openFile(path)
		if err != nil {
			return nil, err
		}
		st, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		src := source{file: path, name: path, data: f, size: st.Size(), kind: k}
		s := src.subject()
		if k == bitcodeKind {
			f.Close()
			r.bitcode(s)
			return nil, nil
		}
		format, err := parse(s, k)
		if err != nil {
			f.Close()
			r.broken(s, format, err)
			return nil, nil
		}
		s.Want, s.Link = want(s, claim{}, r.o), link
		all = append(all, opened{s, format})
		return s, nil
	}
	defer func() {
		for _, x := range all {
			x.s.Data.(*os.File).Close()
		}
	}()
	for i := range objects {
		s, err := open(objects[i].Path)
		if err != nil {
			return nil, fmt.Errorf("abicheck: %w", err)
		}
		if s == nil {
			continue
		}
		s.Role, s.Unit = rule.BaselineObject, objects[i].Unit
		if s.Unit != nil {
			s.Role = rule.ISAObject
		}
		link.Objects = append(link.Objects, s)
	}
	if output != "" {
		s, err := open(output)
		if err != nil {
			return nil, fmt.Errorf("abicheck: %w", err)
		}
		if s != nil {
			s.Role, link.Output = rule.Linked, s
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	for _, x := range all {
		if output != "" && x.s != link.Output {
			continue
		}
		g.Go(func() error { return r.subject(gctx, x.s, x.format) })
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("abicheck: %w", err)
	}
	return r.report(), nil
}
