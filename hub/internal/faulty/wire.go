package faulty

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// Wire is a TCP proxy that cuts connections in the middle of a byte stream, in
// one direction, as a broken network does. The byte at which the nth
// connection is cut follows from the seed.
type Wire struct {
	ln     net.Listener
	target string
	up     bool
	rate   float64
	cuts   atomic.Int64

	mu   sync.Mutex
	rng  *rand.Rand
	open map[net.Conn]bool
	wg   sync.WaitGroup
}

// NewWire starts a proxy to target, HOST:PORT. A share of the connections,
// rate, is cut in what they send to the target (up) or get from it.
func NewWire(target string, seed uint64, up bool, rate float64) (*Wire, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &Wire{ln: ln, target: target, up: up, rate: rate, rng: rand.New(rand.NewPCG(seed, 99)), open: map[net.Conn]bool{}}
	w.wg.Go(w.serve)
	return w, nil
}

// Addr is where the proxy listens, HOST:PORT.
func (w *Wire) Addr() string { return w.ln.Addr().String() }

// Cuts is how many connections were cut so far.
func (w *Wire) Cuts() int { return int(w.cuts.Load()) }

// Close ends the proxy and all its connections.
func (w *Wire) Close() {
	w.ln.Close()
	w.mu.Lock()
	for c := range w.open {
		c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *Wire) serve() {
	for {
		c, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		limit := int64(-1)
		if w.rng.Float64() < w.rate {
			// Small and large messages are hit alike: the size's order of
			// magnitude is drawn first.
			limit = w.rng.Int64N(1 << (6 + w.rng.IntN(13)))
		}
		hard := w.rng.IntN(2) == 0
		w.mu.Unlock()
		w.wg.Go(func() { w.carry(c, limit, hard) })
	}
}

// carry joins a connection with one to the target, until either ends or limit
// bytes have gone the way that is cut.
func (w *Wire) carry(client net.Conn, limit int64, hard bool) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		client.Close()
		return
	}
	w.mu.Lock()
	w.open[client], w.open[server] = true, true
	w.mu.Unlock()
	var once sync.Once
	end := func(cut bool) {
		once.Do(func() {
			if cut {
				w.cuts.Add(1)
				if hard { // a reset instead of an orderly end
					_ = client.(*net.TCPConn).SetLinger(0)
					_ = server.(*net.TCPConn).SetLinger(0)
				}
			}
			client.Close()
			server.Close()
			w.mu.Lock()
			delete(w.open, client)
			delete(w.open, server)
			w.mu.Unlock()
		})
	}
	pass := func(dst, src net.Conn, limited bool) {
		if limited && limit >= 0 {
			n, err := io.CopyN(dst, src, limit)
			end(err == nil && n == limit)
			return
		}
		_, _ = io.Copy(dst, src)
		end(false)
	}
	var wg sync.WaitGroup
	wg.Go(func() { pass(server, client, w.up) })
	pass(client, server, !w.up)
	wg.Wait()
}
