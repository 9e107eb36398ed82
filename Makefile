# ruler-data: RULER as frozen, tokenizer-specific datasets. `make help` lists the targets.
#
# A target is the command of its name with the same words: TOKENIZER=llama3 is --tokenizer llama3.
# FLAGS takes further options of the command. What is left empty, the command decides.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

TOKENIZER ?= mistral
LENGTHS ?=
TASKS ?=
ROWS ?=
SOURCES ?=
OUT ?=
REPO ?=
VERSION ?=
MODEL ?=
DATA ?= $(BUILT)
RUNS ?=
ENGINE ?= vllm
FLAGS ?=
# Of the environment: its Python, its folder, and the tested versions (empty: the newest ones).
PYTHON ?=
VENV ?= .venv
CONSTRAINTS ?= constraints.txt

KNOWN := TOKENIZER LENGTHS TASKS ROWS SOURCES OUT REPO VERSION MODEL DATA RUNS ENGINE FLAGS PYTHON VENV CONSTRAINTS
# A variable with a typing error, e.g. LENGTH=8k, would silently be ignored.
SPACE := $(SHELL:%=) $(SHELL:%=)
UNKNOWN := $(filter-out $(KNOWN) SHELL,$(foreach word,$(subst \$(SPACE),-,$(MAKEOVERRIDES)),$(firstword $(subst =, ,$(word)))))
ifneq ($(UNKNOWN),)
$(error $(firstword $(UNKNOWN)): no such variable; known: $(KNOWN))
endif

BIN := $(VENV)/bin
SETUP = PYTHON='$(PYTHON)' CONSTRAINTS='$(CONSTRAINTS)' .ci/setup $(VENV)
# The option of a variable that is set: $(call option,LENGTHS) is --lengths '4k'.
option = $(if $($(1)),--$(shell echo $(1) | tr A-Z a-z) '$($(1))')
# The last part of a path or of a Hub id.
last = $(notdir $(patsubst %/,%,$(1)))
# The folder of a build, and that of a run: another model, other data or fewer rows are another run.
BUILT = dist/$(call last,$(TOKENIZER))
RUN = runs/$(call last,$(MODEL))-$(call last,$(DATA))$(addprefix -,$(ROWS))
# Tests start many processes; without bytecode each of them compiles the code anew. Many wait for a
# process: one worker more than there are cores keeps them busy.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest -n $$(($$(nproc 2>/dev/null || echo 1) + 1)) --dist worksteal -r fE

.PHONY: help setup build verify publish eval report test check bench regold docs locked test-tools stranger package size clean

help: ## List the targets and their variables
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
	@echo
	@echo 'Variables: $(KNOWN)'

setup: $(VENV)/.dev ## Make .venv with everything that building, testing and checking need

$(VENV)/.build: pyproject.toml $(CONSTRAINTS)
	@$(SETUP) build,report
	@touch $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS)
	@$(SETUP) dev
	@touch $(VENV)/.build $@

# What an engine needs beyond the package is an extra of its name, if anything.
$(VENV)/.engine-%: $(VENV)/.build
	@$(SETUP) build,report,$*
	@touch $@

# Messages then name SOURCES instead of --sources.
build verify publish: export RULER_MAKE = 1

build: $(VENV)/.build ## Build a dataset: TOKENIZER, LENGTHS, TASKS, ROWS, SOURCES, OUT
	$(BIN)/ruler-data build --tokenizer '$(TOKENIZER)' $(foreach name,LENGTHS TASKS ROWS SOURCES OUT,$(call option,$(name))) --workers 0 $(FLAGS)

verify: $(VENV)/.build ## Make the build in OUT (of TOKENIZER) again and compare: SOURCES
	$(BIN)/ruler-data verify '$(or $(OUT),$(BUILT))' $(call option,SOURCES) --workers 0 $(FLAGS)

publish: $(VENV)/.build ## Publish the build in OUT (of TOKENIZER) on the Hub: REPO, VERSION, SOURCES
	@test -n '$(REPO)' || { echo 'make: REPO is missing: make publish REPO=org/ruler' >&2; exit 2; }
	$(BIN)/ruler-data publish '$(or $(OUT),$(BUILT))' --repo '$(REPO)' $(call option,VERSION) $(call option,SOURCES) --workers 0 $(FLAGS)

# Engines take gigabytes: what is missing is said before any is installed.
.PHONY: .asked
.asked:
	@test -n '$(MODEL)' || { echo 'make: MODEL is missing: make eval MODEL=path/or/hub-id' >&2; exit 2; }
	@test -d '$(DATA)' || [[ '$(DATA)' =~ ^[^/.~]+/[^/]+$$ && '$(DATA)' != dist/* ]] || { echo 'make: DATA=$(DATA): no such folder, and no Hub repo; make one with make build' >&2; exit 2; }

eval: .asked $(VENV)/.build $(patsubst %,$(VENV)/.engine-%,$(filter vllm transformers ray,$(ENGINE))) ## Run a model and score it: MODEL, DATA (that of TOKENIZER), ENGINE, TASKS, LENGTHS, ROWS, OUT
	$(BIN)/ruler-eval run --data '$(DATA)' --model '$(MODEL)' --engine '$(ENGINE)' $(foreach name,TASKS LENGTHS ROWS,$(call option,$(name))) --out '$(or $(OUT),$(RUN))' $(FLAGS)
	$(BIN)/ruler-eval score '$(or $(OUT),$(RUN))'

report: $(VENV)/.build ## Report on scored runs: RUNS, folders separated by spaces; OUT
	@test -n '$(RUNS)' || { echo 'make: RUNS is missing: make report RUNS="runs/x runs/y"' >&2; exit 2; }
	$(BIN)/ruler-eval report $(RUNS) $(call option,OUT) $(FLAGS)

test: $(VENV)/.dev ## Run the quick tests (minutes)
	$(PYTEST) -m 'not slow' $(FLAGS)

check: $(VENV)/.dev ## All that CI checks: formatting, style, types, imports, all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(FLAGS)

bench: $(VENV)/.build ## Measure what a build costs: TOKENIZER, SOURCES, ROWS
	$(BIN)/python benchmarks/build.py --tokenizer '$(TOKENIZER)' $(call option,SOURCES) --rows $(or $(ROWS),20) $(FLAGS)

regold: $(VENV)/.dev ## Rewrite reference (golden) files; digests of rows change only with a new data version
	REGOLD=1 $(BIN)/python -m pytest -q $$(grep -rlE 'REGOLD|test_golden import' --include='test_*.py' tests)

docs: $(VENV)/.engine-docs ## Build the documentation's site, strictly -> build/site
	$(BIN)/python docs/build_site.py

locked: ## Before the others: install the tested versions by their hashes (Linux x86-64, Python 3.11)
	PYTHON='$(PYTHON)' .ci/setup $(VENV) locked

# Engines are heavy and pin what they need, so they have an environment of their own.
test-tools: ## Run real models through every engine, and the tools of others; gigabytes, not part of check
	PYTHON='$(PYTHON)' CONSTRAINTS='$(CONSTRAINTS)' .ci/engines
	RULER_RECIPES='$(CURDIR)/.venv-engines/recipes' .venv-engines/bin/python -m pytest -n 2 --dist loadfile tests/engines tests/running/test_slurm.py tests/running/test_ray.py tests/running/test_ray_nodes.py

stranger: $(VENV)/.dev ## Do what README and tutorial say, word by word, in a fresh clone
	$(BIN)/python tests/stranger.py

package: ## Build wheel and sdist as a release does, check and use them
	.ci/package

size: $(VENV)/.build ## Count what there is to read: syntax nodes of each room
	@$(BIN)/python benchmarks/size.py

clean: ## Remove environments, caches and the site; builds in dist/ stay
	rm -rf $(VENV) .venv-engines .venv-lowest build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
