package compile

import (
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// EventType says what happened.
type EventType string

// What happens during a run.
const (
	// EventQueued: everything that the action waits for is done and it was
	// not in the cache.
	EventQueued EventType = "queued"
	// EventStarted: the command runs.
	EventStarted EventType = "started"
	// EventCached: the result came from the cache.
	EventCached EventType = "cached"
	// EventFinished: the command succeeded.
	EventFinished EventType = "finished"
	// EventFailed: it did not.
	EventFailed EventType = "failed"
	// EventSkipped: something that it waits for failed.
	EventSkipped EventType = "skipped"
	// EventVariant: a variant's folder is complete, or its build has failed.
	EventVariant EventType = "variant"
)

// Event is one thing that happened. Action is nil for EventVariant, Variant is
// nil for all others.
type Event struct {
	Type    EventType
	Time    time.Time
	Action  *Action
	Result  *action.Result
	Variant *VariantResult
	Err     error
	// Where is where the action runs, as in action.Result.
	Where string
	// Done of Total actions are finished, Running are running.
	Done, Total, Running int
}

// Observer is told what happens, one event at a time in the order of
// occurrence. It must not block: the scheduler waits for it.
type Observer interface {
	Observe(Event)
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(Event)

// Observe implements Observer.
func (f ObserverFunc) Observe(e Event) { f(e) }
