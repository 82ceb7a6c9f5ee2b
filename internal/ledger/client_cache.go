package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/steadycast/steadycast/decide"
)

// The cache is one framed record: the last view, and whose it is. It is a
// memory, not a log: one that is damaged is as none, and said.
const (
	cacheFormat = "steadycast-view"
	cacheSchema = 1
	// cacheEvery is the least time between two writes.
	cacheEvery = time.Second
)

type cached struct {
	heading
	View decide.View `json:"view"`
}

// load reads the cache.
func (c *Client) load() decide.View {
	none := decide.NewFleet().View()
	if c.opts.Cache == "" {
		return none
	}
	b, err := os.ReadFile(c.opts.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return none
	}
	var was cached
	if err == nil {
		b, _, err = unframe(bytes.TrimSuffix(b, []byte("\n")))
	}
	if err == nil {
		err = json.Unmarshal(b, &was)
	}
	switch {
	case err != nil:
	case was.Format != cacheFormat || was.Schema > cacheSchema:
		err = fmt.Errorf("it is %s of schema %d", was.Format, was.Schema)
	case was.Fleet != c.opts.Fleet:
		err = fmt.Errorf("it is of fleet %s", was.Fleet)
	default:
		return was.View
	}
	c.log.Warn("the ledger's last view on disk cannot be used; this node knows nothing until a voter is heard", "file", c.opts.Cache, "error", err)
	return none
}

// keep writes the cache when the view changed. A write that fails is tried with
// the next change, and again after a second.
func (c *Client) keep() {
	if c.opts.Cache == "" {
		return
	}
	failing := false
	for {
		select {
		case <-c.ctx.Done():
			select {
			case <-c.dirty:
				_ = c.save() // it was said, if it is not new
			default:
			}
			return
		case <-c.dirty:
		}
		err := c.save()
		if err != nil && !failing {
			c.log.Warn("the ledger's view cannot be kept on disk; a restart without a ledger would know less", "file", c.opts.Cache, "error", err)
		}
		if failing = err != nil; failing {
			select {
			case c.dirty <- struct{}{}:
			default:
			}
		}
		pause := time.NewTimer(cacheEvery)
		select {
		case <-c.ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

func (c *Client) save() error {
	b, err := json.Marshal(cached{heading{cacheFormat, cacheSchema, c.opts.Fleet, c.opts.Node}, c.View()})
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.opts.Cache)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next := c.opts.Cache + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(frame(b))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, c.opts.Cache); err != nil {
		return err
	}
	return syncDir(dir)
}
