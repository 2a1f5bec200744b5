//go:build !linux

package source

import "time"

func changeClock() time.Time { return time.Now() }

func sameClock(string) bool { return false }
