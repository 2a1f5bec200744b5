package publish

import (
	"sync"
	"time"
)

// Progress is a moment of a running publish.
type Progress struct {
	// Phase is "hash", "plan", "upload" or "commit".
	Phase string
	// Sent and Total are bytes of the upload. Sent goes back when an attempt
	// failed and its bytes are sent again.
	Sent, Total int64
	// Rate is bytes per second over the last seconds, Left an estimate of
	// the time that remains, zero if unknown.
	Rate float64
	Left time.Duration
}

// meter turns bytes into Progress values, at most ten a second. A nil meter
// does nothing.
type meter struct {
	mu    sync.Mutex
	fn    func(Progress)
	p     Progress
	last  time.Time
	marks []mark
}

type mark struct {
	at   time.Time
	sent int64
}

// window is how far back the rate looks.
const window = 5 * time.Second

func newMeter(fn func(Progress)) *meter {
	if fn == nil {
		return nil
	}
	return &meter{fn: fn}
}

func (m *meter) phase(name string, total int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.p.Phase = name
	if total > 0 {
		m.p.Total = total
	}
	m.show(time.Now())
}

// Add implements client.Progress.
func (m *meter) Add(n int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.p.Sent += n
	if now := time.Now(); now.Sub(m.last) >= 100*time.Millisecond {
		m.show(now)
	}
}

func (m *meter) show(now time.Time) {
	m.last = now
	m.marks = append(m.marks, mark{now, m.p.Sent})
	for len(m.marks) > 2 && now.Sub(m.marks[0].at) > window {
		m.marks = m.marks[1:]
	}
	m.p.Rate, m.p.Left = 0, 0
	first := m.marks[0]
	if d := now.Sub(first.at).Seconds(); d > 0 && m.p.Sent > first.sent {
		m.p.Rate = float64(m.p.Sent-first.sent) / d
		m.p.Left = time.Duration(float64(max(m.p.Total-m.p.Sent, 0)) / m.p.Rate * float64(time.Second))
	}
	m.fn(m.p)
}
