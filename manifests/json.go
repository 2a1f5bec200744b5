package manifests

import "encoding/json"

// jsonMember is one key of a JSON object with its value's own bytes.
type jsonMember struct {
	Key   string
	Value json.RawMessage
}
