# Two commands matter: `make demo` and `make test`. Both set up everything they need in .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test docs lint types reproduce reproduce-full publish-reproduction bench bench-full peers format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## geodesics on a learned manifold: a figure and a table, in demo/
	@$(BIN)/orthodrome demo --out demo

test: lint types $(VENV)/.browser ## every check and every test
	@echo "== tests"
	@$(BIN)/python -m pytest

docs: $(VENV)/.installed-docs ## the documentation, in docs/_build/html; warnings are errors
	@$(BIN)/sphinx-build -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

lint: $(VENV)/.installed-test
	@echo "== ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	@echo "== mypy"
	@$(BIN)/mypy

reproduce: $(VENV)/.installed-experiments ## every experiment of the paper, small, in reproduction/quick
	@$(BIN)/orthodrome reproduce --out reproduction

reproduce-full: $(VENV)/.installed-experiments ## the same in the paper's sizes (goes on where it was stopped)
	@$(BIN)/orthodrome reproduce --full --out reproduction

publish-reproduction: ## put the report and the figures of the full run into docs/
	@cd reproduction/full && cp --parents report.md */figure.png ../../docs/reproduction/

bench: $(VENV)/.installed-bench ## speed beside other libraries, first path, kernel (ten minutes)
	@for script in "speed.py --out demo/bench" "scaling.py start" kernel.py; do echo "== $$script"; $(BIN)/python benchmarks/$$script || exit 1; done

bench-full: $(VENV)/.installed-bench ## every measured claim of README and docs (hours)
	@for script in "speed.py --full --out demo/bench" "scaling.py --out demo/bench" kernel.py auto.py batches.py closed_forms.py semicircle.py survival.py page.py decoders.py "auto.py peers"; do \
		echo "== $$script"; $(BIN)/python benchmarks/$$script || exit 1; done

peers: $(VENV)/.installed-bench ## other libraries on the same problems (an hour)
	@$(BIN)/python benchmarks/auto.py peers

format: $(VENV)/.installed-test ## let ruff mend what it can
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean: ## remove the environment and what the demo made
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.created:
	@echo "== making the environment $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "orthodrome needs Python 3.11 or newer; call: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV) && touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing orthodrome and what it stands on (a minute or two, once)"
	@$(PIP) --editable . && touch $@

$(VENV)/.installed-experiments: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing orthodrome with the images of the experiments"
	@$(PIP) --editable '.[experiments]' && touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing what the documentation is built with"
	@$(PIP) --editable '.[docs]' && touch $@ $(VENV)/.installed $(VENV)/.installed-experiments

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing orthodrome with its test tools (two minutes or so, once)"
	@$(PIP) --editable '.[test]' && touch $@ $(VENV)/.installed $(VENV)/.installed-experiments $(VENV)/.installed-docs

$(VENV)/.browser: $(VENV)/.created
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		{ echo "== installing chromium, in which the page is tested"; apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
		{ echo "the tests of the page need chromium: install it and try again" >&2; exit 1; }
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.created pyproject.toml constraints.txt
	@echo "== installing the other libraries"
	@$(PIP) --editable '.[bench]' && touch $@ $(VENV)/.installed
