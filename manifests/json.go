package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// jsonMember is one key of a JSON object with its value's own bytes.
type jsonMember struct {
	Key   string
	Value json.RawMessage
}

// jsonObject reads an object with its keys in order. A key that occurs twice
// is an error: readers differ on which of the two counts, which is how a file
// that one program checked means something else to the next.
func jsonObject(data []byte) ([]jsonMember, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	tok, err := dec.Token()
	if err != nil {
		return nil, jsonError(data, err)
	}
	if tok != json.Delim('{') {
		return nil, fmt.Errorf("expected an object, got %s", jsonKind(tok))
	}
	var out []jsonMember
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, jsonError(data, err)
		}
		m := jsonMember{Key: tok.(string)}
		if err := dec.Decode(&m.Value); err != nil {
			return nil, jsonError(data, err)
		}
		if slices.ContainsFunc(out, func(o jsonMember) bool { return o.Key == m.Key }) {
			return nil, fmt.Errorf("key %q occurs twice", m.Key)
		}
		out = append(out, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, jsonError(data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected text after the object")
	}
	return out, nil
}

// jsonError adds the line and column to a syntax error.
func jsonError(data []byte, err error) error {
	var se *json.SyntaxError
	if errors.As(err, &se) {
		pos := newLines("", data).pos(int(se.Offset) - 1)
		return fmt.Errorf("%v: not valid JSON: %w", pos, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not valid JSON: the file ends too early")
	}
	return err
}

func jsonKind(tok json.Token) string {
	switch tok.(type) {
	case json.Delim:
		return "an array"
	case string:
		return "a string"
	case float64, json.Number:
		return "a number"
	case bool:
		return "a boolean"
	}
	return "null"
}

// jsonFields reads an object field by field; what nobody asked for is left.
type jsonFields struct {
	where string
	rest  []jsonMember
	err   error
}

func openJSON(where string, data []byte) *jsonFields {
	members, err := jsonObject(data)
	if err != nil && where != "" {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return &jsonFields{where: where, rest: members, err: err}
}

func (f *jsonFields) name(key string) string {
	if f.where == "" {
		return key
	}
	return f.where + "." + key
}

func (f *jsonFields) fail(key, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %s", f.name(key), fmt.Sprintf(format, args...))
	}
}

// take removes a field. A null counts as absent where optional.
func (f *jsonFields) take(key string, required bool) json.RawMessage {
	i := slices.IndexFunc(f.rest, func(m jsonMember) bool { return m.Key == key })
	if i < 0 {
		if required {
			f.fail(key, "missing key")
		}
		return nil
	}
	v := f.rest[i].Value
	f.rest = slices.Delete(f.rest, i, i+1)
	if string(v) == "null" {
		if required {
			f.fail(key, "expected a value, got null")
		}
		return nil
	}
	return v
}

func (f *jsonFields) text(key string, required bool) (s string) {
	if v := f.take(key, required); v != nil && json.Unmarshal(v, &s) != nil {
		f.fail(key, "expected a string, got %s", v)
	}
	return s
}

func (f *jsonFields) texts(key string, required bool) []string {
	v := f.take(key, required)
	if v == nil {
		return nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(v, &raw) != nil {
		f.fail(key, "expected an array of strings, got %s", v)
		return nil
	}
	out := make([]string, len(raw))
	for i, e := range raw {
		if len(e) == 0 || e[0] != '"' || json.Unmarshal(e, &out[i]) != nil {
			f.fail(key, "expected an array of strings, got %s in it", e)
		}
	}
	return out
}

func (f *jsonFields) uint(key string, required bool) (n *int) {
	v := f.take(key, required)
	if v == nil {
		return nil
	}
	var i int32
	if json.Unmarshal(v, &i) != nil || i < 0 || strings.Trim(string(v), "0123456789") != "" {
		f.fail(key, "expected a non-negative integer, got %s", v)
		return nil
	}
	got := int(i)
	return &got
}

// jsonWriter prints the layout that producers use: two spaces, keys in a
// fixed order, non-ASCII text as it is, no newline at the end.
type jsonWriter struct{ members []jsonMember }

func (w *jsonWriter) add(key string, v any) {
	w.members = append(w.members, jsonMember{key, encodeJSON(v)})
}

func (w *jsonWriter) object() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range w.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encodeJSON(m.Key))
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encodeJSON prints without escaping <, > and &, as the reference does.
func encodeJSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok {
		return raw
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings, numbers, maps and slices of them always encode
	}
	return bytes.TrimSpace(b.Bytes())
}

func indentJSON(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		panic(err) // raw was put together from valid values
	}
	return b.Bytes()
}
