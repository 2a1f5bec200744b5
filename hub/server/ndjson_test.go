package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// memSink keeps the content of the last line.
type memSink struct{ bytes.Buffer }

func (m *memSink) Begin() error { m.Reset(); return nil }

type scanned struct {
	commitLine
	content string
}

func scan(body io.Reader) ([]scanned, error) {
	var sink memSink
	sc := newLineScanner(body, &sink)
	var out []scanned
	for {
		l, err := sc.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		s := scanned{commitLine: l}
		if l.HasContent {
			s.content = sink.String()
		}
		out = append(out, s)
	}
}

func TestScanCommit(t *testing.T) {
	body := `{"key":"header","value":{"summary":"a \"b\" \u00e4 \ud83d\ude00","description":null,"parentCommit":"abcde","extra":{"x":[1,-2.5e3,{"y":null}]}}}
{"value":{"content":"aGVsbG8=","path":"a","encoding":"base64"},"key":"file"}

{"key":"file","value":{"path":"b","content":"tex\tt \u00e4","encoding":"utf-8"}}
{"key":"lfsFile","value":{"path":"c","algo":"sha256","oid":"00","size":12}}
{"key":"deletedFile","value":{"path":"d"}}`
	got, err := scan(strings.NewReader(body))
	if err != nil || len(got) != 5 {
		t.Fatalf("%d lines, %v; want 5", len(got), err)
	}
	if got[0].Summary != "a \"b\" ä 😀" || got[0].Parent != "abcde" {
		t.Errorf("header %+v", got[0])
	}
	if got[1].content != "hello" || got[1].Path != "a" || got[2].content != "tex\tt ä" || got[3].Size != 12 || got[4].Size != -1 {
		t.Errorf("operations %+v", got[1:])
	}
}

// TestScanHugeLine reads a line of 64 MiB; nothing may depend on its length.
func TestScanHugeLine(t *testing.T) {
	const mib = 48
	block := strings.Repeat("QUJD", 1<<18) // 1 MiB of text
	parts := []io.Reader{strings.NewReader(`{"key":"file","value":{"path":"a","content":"`)}
	for range mib {
		parts = append(parts, strings.NewReader(block))
	}
	parts = append(parts, strings.NewReader(`"}}`))
	n := &countSink{}
	sc := newLineScanner(io.MultiReader(parts...), n)
	if _, err := sc.next(); err != nil || n.n != mib*3<<18 {
		t.Errorf("%d bytes, %v; want %d", n.n, err, mib*3<<18)
	}
	if cap(sc.buf) > maxText {
		t.Errorf("the scanner kept %d bytes", cap(sc.buf))
	}
}

type countSink struct{ n int }

func (c *countSink) Begin() error                { c.n = 0; return nil }
func (c *countSink) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestScanRefuses(t *testing.T) {
	for _, body := range []string{
		`x`, `{`, `{"key":"file"}`, `{"key":"file","value":{}} x`, `{"key":"file","value":{"path":"a","path":"b"}}`,
		`{"key":"file","value":{"content":"a"}}`, `{"key":"file","value":{"content":"=aaa"}}`, `{"key":"file","value":{"content":"aa==aaaa"}}`,
		`{"key":"file","value":{"content":"aGVs\nbG8="}}`, "{\"key\":\"fi\nle\",\"value\":{}}", `{"key":"file","value":{"content":"aaaa","encoding":"rot13"}}`,
		`{"key":"lfsFile","value":{"size":-1}}`, `{"key":"lfsFile","value":{"size":1.5}}`, `{"key":"a","value":{"x":"\ud800"}}`,
		`{"key":"file","value":{"content":"aGVsbG8`, `{"key":"` + strings.Repeat("a", maxText+1) + `","value":{}}`,
		`{"key":"a","value":{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`,
	} {
		got, err := scan(strings.NewReader(body))
		var api *apiError
		if !errors.As(err, &api) || api.Status != 400 {
			t.Errorf("%.60q: %+v, %v; want a 400", body, got, err)
		}
	}
}

// FuzzCommitBody compares the streaming scanner with encoding/json.
func FuzzCommitBody(f *testing.F) {
	f.Add(`{"key":"file","value":{"path":"a","content":"aGVsbG8=","encoding":"base64"}}`)
	f.Add(`{"key":"file","value":{"path":"a\u0041","content":"x","encoding":"utf-8"}}` + "\n" + `{"key":"header","value":{"summary":"s"}}`)
	f.Fuzz(func(t *testing.T, body string) {
		lines, err := scan(strings.NewReader(body))
		if err != nil {
			return
		}
		dec := json.NewDecoder(strings.NewReader(body))
		for i, l := range lines {
			// Names in the decoder's map keep their case, as the scanner has it.
			var want struct {
				Key   string
				Value map[string]any
			}
			var raw map[string]json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				t.Fatalf("line %d of %q is no JSON: %v", i, body, err)
			}
			json.Unmarshal(raw["key"], &want.Key)
			if err := json.Unmarshal(raw["value"], &want.Value); err != nil {
				t.Fatalf("line %d of %q: %v", i, body, err)
			}
			path, _ := want.Value["path"].(string)
			if l.Key != want.Key || l.Path != path {
				t.Errorf("line %d of %q: key %q path %q, want %q %q", i, body, l.Key, l.Path, want.Key, path)
			}
			if text, ok := want.Value["content"].(string); ok {
				if enc, _ := want.Value["encoding"].(string); enc == "base64" || want.Value["encoding"] == nil && enc == "" {
					if _, has := want.Value["encoding"]; has && enc == "" {
						continue
					}
					data, err := base64.StdEncoding.Strict().DecodeString(text)
					if err != nil || string(data) != l.content {
						t.Errorf("line %d of %q: content %q, want %q (%v)", i, body, l.content, data, err)
					}
				}
			}
		}
		if dec.More() {
			t.Errorf("%q holds more than the %d lines that were read", body, len(lines))
		}
	})
}
