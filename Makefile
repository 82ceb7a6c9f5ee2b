# steadycast: `make help` says what each target does.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
GO ?= go
FUZZTIME ?= 10s
CHECKS ?= 5000
T ?= .
S ?= .
SEEDS ?= 10000
FIRST ?= 1
ARGS ?=

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unversioned)
LDFLAGS := -s -w -X main.version=$(VERSION)

# The daemons and tools that the tests drive, by their Debian 12 names.
PACKAGES := frr bird2 openbgpd exabgp nftables iproute2 tcpdump tshark prometheus systemd procps curl spin gcc libc6-dev \
  knot knot-dnsutils nsd gdnsd unbound bind9-dnsutils bind9-utils dnsviz validns

# Properties are drawn from one seed here, so that two runs of one commit say the same; `make hunt` draws new ones.
test race: export RAPID_SEED ?= 1

.PHONY: help setup build check test race fuzz hunt lab sim spin bench

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the Debian packages that the tests need (as root), and fetch the Go modules
	@if [ "$$(id -u)" != 0 ]; then echo "make setup installs Debian packages: run it as root" >&2; exit 1; fi
	@missing=$$(for p in $(PACKAGES); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d.steadycast && chmod +x /usr/sbin/policy-rc.d.steadycast; \
	  [ -e /usr/sbin/policy-rc.d ] || { ln -s policy-rc.d.steadycast /usr/sbin/policy-rc.d; ours=1; }; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; rc=$$?; \
	  [ -z "$$ours" ] || rm -f /usr/sbin/policy-rc.d; rm -f /usr/sbin/policy-rc.d.steadycast; exit $$rc; \
	else echo "setup: every Debian package is here: $(PACKAGES)"; fi
	$(GO) mod download

build: ## build the one static binary, ./steadycast
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o steadycast ./cmd/steadycast

check: ## gofmt, go vet, staticcheck, and that go.mod is tidy
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff

test: check ## check, then every test this machine allows; says what it left out (CI=true: a missing piece fails)
	$(GO) test -count=1 -timeout 15m -json ./... | $(GO) run ./internal/tools/testsum

race: ## every test under the race detector
	$(GO) test -count=1 -race -timeout 25m -json ./... | $(GO) run ./internal/tools/testsum

fuzz: ## every fuzz target for FUZZTIME (10s) each
	@set -e; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
	  for n in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$f); do \
	    echo "== $$n in $$(dirname $$f)"; $(GO) test -run '^$$' -fuzz "^$$n$$" -fuzztime $(FUZZTIME) ./$$(dirname $$f); done; done

hunt: ## every property over CHECKS (5000) new cases each
	@set -e; for d in $$(grep -rlF '"pgregory.net/rapid"' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  n=$$(grep -lF '"pgregory.net/rapid"' $$d/*_test.go | xargs sed -nE 's/^func (Test[A-Za-z0-9_]*).*/\1/p' | paste -sd'|'); \
	  $(GO) test -count=1 -timeout 60m -run "^($$n)$$" $$d -rapid.checks $(CHECKS); done

lab: ## scenarios on real routers in network namespaces (root); T=single-frr S=scenario choose
	LAB_T='$(T)' LAB_S='$(S)' $(GO) test -count=1 -v -timeout 20m ./lab/...

sim: ## 10,000 schedules of the simulator (SEEDS, FIRST and ARGS choose others), then every rejected rule; about an hour
	$(GO) run ./cmd/steadycast simulate --seeds $(SEEDS) --first-seed $(FIRST) --hours 0.25 $(ARGS)
	$(GO) run ./cmd/steadycast simulate --mutate all --hours 0.125

spin: ## every order of events in the model of the permit protocol (lab/spin), the larger instances too; some minutes, 3 GB
	$(GO) test -count=1 -v -timeout 90m ./lab/spin -full

bench: ## the figures: ratios against peers in one run
	$(GO) test -run '^$$' -bench . -benchmem ./...
