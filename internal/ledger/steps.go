package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/steadycast/steadycast/decide"
)

const pathStep = "/v1/step" // decide.StepWord → decide.Reply

// Step says what a node has to say of a step of a plan.
func (c *calls) Step(ctx context.Context, word decide.StepWord) (decide.Reply, error) {
	word = word.Sound()
	if _, err := statement(word); err != nil {
		return decide.Reply{}, err
	}
	r := c.call(ctx, op{entry: func(l *leader, now time.Duration) decide.Entry {
		e := l.entry(now, decide.KindStep)
		e.Step = &word
		if word.Say == decide.SayTake { // which may order what floor and capacity are asked for
			l.look(now, &e)
		}
		return e
	}})
	return r.reply, r.err
}

// Step says what this node has to say of a step of a plan.
func (c *Client) Step(ctx context.Context, word decide.StepWord) (decide.Reply, error) {
	return c.person(ctx, again, pathStep, word)
}

// ownStep: a node speaks for itself only.
func ownStep(who Identity, w decide.StepWord) error {
	if err := own(who, w.Site); err != nil {
		return err
	}
	if w.Node != who.Node {
		return Forbidden(fmt.Sprintf("%s speaks for itself, not for node %s", who, w.Node))
	}
	return nil
}
