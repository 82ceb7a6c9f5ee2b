// Command lab brings a topology up on this machine, or plays scenarios on it.
//
//	lab up TOPOLOGY                   until ctrl-C; prints how to enter each node
//	lab run [-t REGEXP] [-s REGEXP]   scenarios, expected beside actual
//	lab down                          says why there is nothing to take down
//
// It runs in the repository, as root, with the binaries that -steadycast and
// -service name, or builds them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/steadycast/steadycast/lab"
)

const usage = `usage: lab up TOPOLOGY | lab run [-t REGEXP] [-s REGEXP] | lab down`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	fs := flag.NewFlagSet("lab", flag.ContinueOnError)
	topologies := fs.String("t", "", "topologies whose name matches this regular expression")
	scenarios := fs.String("s", "", "scenarios whose name matches this regular expression")
	dir := fs.String("dir", "lab", "folder of scenarios/ and containerlab/")
	product := fs.String("steadycast", os.Getenv("STEADYCAST_BIN"), "binary of steadycast; built when not given")
	service := fs.String("service", "", "binary of the service; built when not given")
	if err := fs.Parse(args[1:]); err != nil {
		return errors.New(usage)
	}
	programs := func() (lab.Programs, func(), error) { return build(ctx, *dir, *product, *service) }
	switch args[0] {
	case "up":
		if fs.NArg() != 1 {
			return errors.New("up: name one topology: single-frr, single-bird, single-openbgpd, bfd-frr, bfd-bird, fleet, names, paths")
		}
		p, clean, err := programs()
		if err != nil {
			return err
		}
		defer clean()
		return up(ctx, filepath.Join(*dir, "containerlab", fs.Arg(0)+".clab.yml"), p)
	case "run":
		p, clean, err := programs()
		if err != nil {
			return err
		}
		defer clean()
		return play(ctx, *dir, *topologies, *scenarios, p)
	case "down":
		fmt.Println("A lab lives exactly as long as its `lab up` or `lab run`: end that with ctrl-C, and nothing is left.")
		return nil
	}
	return errors.New(usage)
}

func up(ctx context.Context, file string, programs lab.Programs) error {
	topo, err := lab.Load(file)
	if err != nil {
		return err
	}
	l, err := lab.Up(ctx, topo, programs)
	if err != nil {
		return err
	}
	defer l.Down()
	fmt.Printf("%s is up. Enter its nodes from another terminal:\n", topo.Name)
	for _, n := range topo.Nodes {
		fmt.Printf("  %-10s %s\n", n.Name, strings.Join(l.Enter(n.Name), " "))
	}
	fmt.Println("ctrl-C takes it down.")
	<-ctx.Done()
	fmt.Println("down")
	return nil
}

// play runs each scenario in a fresh lab, one after the other.
func play(ctx context.Context, dir, topologies, scenarios string, programs lab.Programs) error {
	want, err := regexp.Compile(topologies)
	if err != nil {
		return fmt.Errorf("-t: %w", err)
	}
	which, err := regexp.Compile(scenarios)
	if err != nil {
		return fmt.Errorf("-s: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "scenarios", "*.txt"))
	if err != nil {
		return err
	}
	played := 0
	var failed []string
	for _, file := range files {
		s, err := lab.LoadScenario(file)
		if err != nil {
			return err
		}
		for _, name := range s.On {
			if !want.MatchString(name) || !which.MatchString(s.Name) {
				continue
			}
			played++
			if err := playOne(ctx, filepath.Join(dir, "containerlab", name+".clab.yml"), s, programs); err != nil {
				fmt.Fprintln(os.Stderr, "lab:", err)
				failed = append(failed, s.Name+" on "+name)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	switch {
	case played == 0:
		return fmt.Errorf("no scenario of %s matches -t %q -s %q", dir, topologies, scenarios)
	case len(failed) > 0:
		return fmt.Errorf("%d of %d failed: %s", len(failed), played, strings.Join(failed, ", "))
	}
	fmt.Printf("%d passed\n", played)
	return nil
}

func playOne(ctx context.Context, file string, s *lab.Scenario, programs lab.Programs) error {
	topo, err := lab.Load(file)
	if err != nil {
		return err
	}
	l, err := lab.Up(ctx, topo, programs)
	if err != nil {
		return err
	}
	defer l.Down()
	return lab.Play(ctx, l, s, os.Stdout)
}

// build makes the binaries that were not given; clean removes them.
func build(ctx context.Context, dir, product, service string) (p lab.Programs, clean func(), err error) {
	tmp, err := os.MkdirTemp("", "sc-lab-")
	if err != nil {
		return nil, nil, err
	}
	clean = func() { _ = os.RemoveAll(tmp) }
	p = lab.Programs{"steadycast": product, "lab-service": service}
	sources := map[string]string{"steadycast": filepath.Join(dir, "..", "cmd", "steadycast"), "lab-service": filepath.Join(dir, "service")}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if p[name] != "" {
			continue
		}
		p[name] = filepath.Join(tmp, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-o", p[name], "./"+sources[name])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			clean()
			return nil, nil, fmt.Errorf("building %s: %w", name, err)
		}
	}
	if err := lab.Credentials(ctx, dir, p["steadycast"], filepath.Join(tmp, "pki")); err != nil {
		clean()
		return nil, nil, err
	}
	return p, clean, nil
}
