package main

import (
	"context"
	"errors"

	"github.com/steadycast/steadycast/internal/api"
)

// The exit codes. They are part of the interface: scripts rest on them.
const (
	exitOK          = 0 // done, or nothing to complain of
	exitFailed      = 1 // something went wrong
	exitUsage       = 2 // the command line or a configuration is wrong
	exitRefused     = 3 // a guard refused
	exitNotFound    = 4 // no such site, prefix, peer
	exitUnreachable = 5 // no daemon answers
	exitTimeout     = 6 // --wait ran out; the action goes on
	exitDegraded    = 7 // status --exit-code: not all is well
)

// exitError is an error with its exit code. An empty text is not printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(err error) error { return &exitError{exitUsage, err} }

func hasCode(err error) bool {
	var e *exitError
	return errors.As(err, &e)
}

// exitCode gives every error its code; here and nowhere else.
func exitCode(err error) int {
	var own *exitError
	var answer *api.Error
	var gone *api.Unreachable
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &gone):
		return exitUnreachable
	case errors.As(err, &answer):
		switch answer.Code {
		case api.CodeUsage, api.CodeConfig:
			return exitUsage
		case api.CodeRefused:
			return exitRefused
		case api.CodeNotFound:
			return exitNotFound
		}
		return exitFailed
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitFailed
}
