# Everything here works in a fresh clone: .venv is made on demand, and so is the managed CPU build of vLLM.
.DEFAULT_GOAL := demo
.PHONY: demo test fast live check fmt engine soak bench

BIN := .venv/bin
STAMP := .venv/.installed
PYTHON ?=
FAULTS := $(CURDIR)/.faults.jsonl
# Tests start hundreds of cockpits, and each would compile itself, which is half of its time.
unexport PYTHONDONTWRITEBYTECODE

# Serve a tiny model on a real vLLM and look at it. Without a terminal: the same, as text.
demo: $(STAMP)
	$(BIN)/cockpit demo

# Everything that must be green before a push. What needs no vLLM goes on beside the live tests, of which each waits for
# the one busy process of a boot; live files run two at a time. `make fast` and `make live` are the two halves.
test: $(STAMP)
	$(MAKE) --no-print-directory --jobs=2 fast live

fast: check
	$(BIN)/python -m pytest -n 3 --dist loadfile --ignore=tests/live

live: engine
	$(BIN)/python -m pytest -v -n 2 --dist loadfile tests/live

# Every fault ten times, twenty cycles of a real vLLM, and the table of it: about an hour.
soak: $(STAMP) engine
	rm -f $(FAULTS)
	for run in 1 2 3 4 5 6 7 8 9 10; do \
	  COCKPIT_FAULTS=$(FAULTS) COCKPIT_SOAK=1 $(BIN)/python -m pytest -q tests/process tests/tui -m fault || exit 1; \
	done
	COCKPIT_FAULTS=$(FAULTS) COCKPIT_SOAK=1 $(BIN)/python -m pytest -v tests/live/test_chaos.py
	$(BIN)/python scripts/reliability.py $(FAULTS) > docs/reliability.md

check: $(STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The managed CPU engine of this user: shared by the demo, the tests and daily use.
engine: $(STAMP)
	$(BIN)/cockpit engines install cpu

$(STAMP): pyproject.toml scripts/bootstrap.sh
	PYTHON="$(PYTHON)" sh scripts/bootstrap.sh
	touch $@

# What the screen costs on this machine; give scenes by name: make bench SCENES="empty one_server". PEERS=1 measures
# vllmstat and nvitop beside it, WRITE=1 writes docs/cost.md.
bench: $(STAMP)
	$(BIN)/python tests/bench/cost.py $(SCENES) $(if $(PEERS),--peers) $(if $(WRITE),--write)
