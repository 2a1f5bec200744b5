//go:build !linux

package compile

func replaceDir(from, to string) error { return replaceInTwoSteps(from, to) }
