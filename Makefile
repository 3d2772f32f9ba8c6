# Everything a contributor runs has a target here; `make help` prints them.
# Another environment: make test VENV=.venv-3.11 PYTHON=python3.11 · arguments: make demo ARGS=--json, make test ARGS="-k g4"

VENV   = .venv
PYTHON =
ARGS   =
# Each process of a run has servers of its own; a file's tests stay together. Some wait while the others work: two processes
# more than there are cores, from 3 to 6.
PROCESSES = $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$(( cores > 4 ? 6 : cores + 2 )))
PYTEST = $(BIN)/pytest --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder

# These compare rates by the clock: beside other tests they would measure those.
TIMED = $(BIN)/pytest tests/faults -m timed

BIN  = $(VENV)/bin

# One file of SQL: make test-mutations ARGS=claims/claim_items. A sample: MUTATIONS='--mutants 100 --mutants-seed 7'.
# Each mutant is a test that passes if it is killed. First is recorded which test reaches what.
MUTATED_BY = $(addprefix tests/,allocator calendars intake ledger materialise outcomes reconciler service workers)
MUTATIONS =
MUTATED = $(BIN)/pytest -p tests.mutations -p no:randomly -q --numprocesses=$(PROCESSES) $(MUTATED_BY)

# A run starts hundreds of Python processes: what one compiled, the others read.
unexport PYTHONDONTWRITEBYTECODE
# Hypothesis would import trio for its plugin, and look for what refers to a number of it: 0.3 s in each process.
export HYPOTHESIS_NO_PLUGINS = 1

.DEFAULT_GOAL = help
.DELETE_ON_ERROR:
.PHONY: help env demo test test-full test-faults test-browser pictures test-mutations bench clients helm check check-format check-lint check-style check-types check-imports \
        check-sql schema check-docs docs dist format lock clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

env: ## make the environment in .venv from the lock (every target below does it when needed)
	@VENV='$(VENV)' PYTHON='$(PYTHON)' tools/bootstrap

demo: env ## run the whole system on real input: a simulated day of an insurer, killed in the middle, reconciled
	@$(BIN)/dueledger demo $(ARGS)

test: env ## run the tests that every change must pass
	@$(PYTEST) $(ARGS)
	$(if $(ARGS),,@$(TIMED)' and not full')

test-full: env ## run those and the slow ones
	@DUELEDGER_TEST_FULL=1 $(PYTEST) -m 'not faults and not timed and not bench and not browser' $(ARGS)
	$(if $(ARGS),,@$(TIMED))

test-faults: env ## stop, kill and cut off real servers, then ten minutes of random faults
	@DUELEDGER_FAULT_SECONDS=$${DUELEDGER_FAULT_SECONDS:-600} $(BIN)/pytest -m faults -o faulthandler_timeout=1200 $(ARGS)

test-browser: env ## run the tests of the console in Chromium; pictures of its pages are in .tools/screenshots
	@$(BIN)/pytest -m browser tests/browser $(ARGS)

pictures: env ## take the pictures of the console in docs/pictures again, with the words that a test compares with the pages
	@DUELEDGER_UPDATE_PICTURES=1 $(BIN)/pytest -m browser tests/browser/test_picture.py

test-mutations: env ## take each condition and each write out of the SQL that moves items, and list what no test notices
	@$(MUTATED) --dist=loadfile --reach || [ $$? = 5 ]  # 5: all is recorded
	@$(MUTATED) --dist=loadscope --mutate='$(ARGS)' $(MUTATIONS)

bench: env ## run every benchmark, print which goals are reached as JSON (ARGS='--scale 0.01' only checks)
	@$(BIN)/dueledger bench all --json $(ARGS)

# What a toolchain that is missing would need is left out, and its test is skipped.
clients: ## fetch and build what the consumers in Go and Node of examples/ need, and the issuer of the tests, once; their tests are skipped without it
	@if command -v go >/dev/null; then cd examples/go && go build -buildvcs=false -o /dev/null .; fi
	@if command -v npm >/dev/null; then \
	  for folder in examples/node tools/issuer; do (cd $$folder && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || exit; done; fi

# A program in Go; `go.sum` pins what it is built of. The tests of the chart are skipped without it.
helm: ## build helm, which the tests of deploy/helm run, once
	@if command -v go >/dev/null; then cd tools/helm && go build -buildvcs=false -o ../../.tools/helm helm.sh/helm/v3/cmd/helm; fi

check: check-format check-lint check-style check-types check-imports check-sql check-docs ## all checks below
	@echo 'check: all passed'

check-format: env ## formatting (make format fixes it)
	$(BIN)/ruff format --check

check-lint: env ## ruff, all rules minus the exemptions justified in pyproject.toml
	$(BIN)/ruff check

check-style: env ## rules that no linter has: names, words, literal states, sleeps in tests
	$(BIN)/python tools/check_style.py
	$(BIN)/python tools/check_words.py

check-types: env ## pyright, strict
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# In a copy whose links are followed, as in a wheel: the reader of imports follows none.
check-imports: env ## which module may import which, and who may reach Postgres and Kafka
	@rm -rf .tools/imports && mkdir -p .tools/imports && cp -RL dueledger .tools/imports/
	@cd .tools/imports && $(abspath $(BIN))/lint-imports --no-logo --config $(CURDIR)/pyproject.toml

check-sql: env ## lock hazards in schema and migrations; statement headers and schema.sql against the server
	$(BIN)/squawk sql/schema/*.sql sql/schema/*/*.sql sql/migrations/*.sql sql/outbox/schema.sql
	$(BIN)/pytest tests/sql -q -k 'header or schema or migration'

# The files that are made of the code; tests compare them.
MADE_BY = $(addprefix tests/,sql test_why.py test_findings_document.py alerts/test_prometheus.py metrics/test_catalogue.py test_settings_document.py test_definitions.py reconciler/test_comparison.py service/test_client.py)

schema: env ## write sql/schema.sql, the pages of docs that are made of the code, the JSON Schemas of definition and report, and the client's models again
	@DUELEDGER_UPDATE_SCHEMA=1 $(BIN)/pytest -p no:randomly $(MADE_BY) -q -k 'schema_dump or docs_show or published_schema'

check-docs: env ## links, addresses, paths and names of tests in everything that is tracked
	$(BIN)/python tools/check_docs.py

docs: env ## build the site of the documents in .tools/docs/site, and check its links; mkdocs has an environment of its own
	@BIN='$(BIN)' tools/build_site

dist: env ## build the wheel and the sdist in dist/
	@rm -rf dist && $(BIN)/python -m hatchling build

format: env ## format the code and fix what ruff can
	@$(BIN)/ruff check --quiet --fix-only
	@$(BIN)/ruff format

lock: env ## pin what pyproject.toml asks for; pinned packages stay (ARGS=--upgrade updates all)
	@tools/lock $(ARGS)

clean: ## remove the environment and everything made by running
	rm -rf .venv* .tools .dueledger .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
