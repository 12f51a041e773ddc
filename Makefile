# Where Attention Looks. `make help` lists the commands; `make book` and `make test` are the two that matter.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON  ?= python3#     the interpreter that makes .venv: 3.11 or newer
PROFILE ?= quick#       smoke (seconds, to test), quick (minutes), paper (the papers' own scale)
CORES   ?= 2#           notebooks run side by side, one thread each: small models are fastest so
PORT    ?= 8000
ROOM    ?=#             a room of attnlib, a chapter (a folder of tests/chapters), or book: `make test` of it alone
FLAGS   ?=#             more for Snakemake: --profile book/pipeline/slurm runs chapters as jobs of a cluster
ADDRESS := 127.0.0.1

BIN    := .venv/bin
STAMP  := .venv/.installed
EXTRAS := book,hf,lm,test

ifneq ($(words $(PROFILE)) $(filter smoke quick paper,$(PROFILE)),1 $(PROFILE))
$(error PROFILE must be smoke, quick or paper. Got '$(PROFILE)' instead)
endif

.PHONY: help book sweep style test test-long test-all serve lab sync wheel lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

# One stamp for the environment: an edit of what is required installs again, anything else does not. Python compiles what
# it imports; compiling all that is installed would double the time.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; \
	$(PYTHON) is $$($(PYTHON) -V 2>&1). Name another one: make PYTHON=python3.12 book" >&2; exit 1; }
	@echo "Installing the pinned environment into .venv (a few minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

book: $(STAMP) ## execute the notebooks and render the book [PROFILE=smoke|quick|paper]
	@$(BIN)/python -m book.pipeline $(PROFILE) --cores $(CORES) $(FLAGS)

.PHONY: page
page: $(STAMP) ## a chapter that papermill has run, as a page like the book's [FILE=out.ipynb]
	@$(BIN)/python -m book.pipeline.page $(or $(FILE),$(error FILE should name one: make page FILE=out.ipynb))

sweep: $(STAMP) ## a chapter with every combination of some parameters, and one table [FILE=sweep.yaml, FLAGS=...]
	@$(BIN)/python -m book.pipeline.sweep $(or $(FILE),$(error FILE should name one: make sweep FILE=sweeps/weiss-languages.yaml)) \
	  --cores $(CORES) $(FLAGS)

.PHONY: pdf
pdf: book ## the built book as one PDF, build/<profile>/book.pdf; needs Chromium
	@$(BIN)/python -m book.pipeline.pdf build/$(PROFILE)

# A worker that is done takes what another has not begun. What builds or opens the book has the mark `book` (browser tests
# skip where no Chromium is found, and the reason is printed); what is long by nature has `slow`: damage at full size,
# parameters far from a chapter's own, kills, spawned processes, the wheel, further books.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --dist worksteal
SHORT := "not slow and not book"
# The tests of a room: its folder, and those that execute the chapter's notebook, which has the name of a file of it.
CHAPTER = $(basename $(notdir $(wildcard book/chapters/$(ROOM)/*.py)))
OF_ROOM = $(wildcard tests/attnlib/$(ROOM) tests/chapters/$(ROOM) $(filter tests/book,tests/$(ROOM)) \
  $(CHAPTER:%=tests/notebooks/test_%.py))

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --preview --select PLW1514 attnlib book # files are read alike in any locale

test: style ## style, types, and the tests that need no built book: ten minutes [ROOM=rollout: of one room, in one]
ifeq ($(ROOM),)
	@mkdir -p build; $(BIN)/mypy >build/types.txt & types=$$!; $(PYTEST) -m $(SHORT) || failed=$$?; \
	  wait $$types || failed=$$?; cat build/types.txt; exit $${failed:-0}
else
	$(PYTEST) -m $(SHORT) \
	  $(or $(strip $(OF_ROOM)),$(error ROOM should be a folder of tests/attnlib or tests/chapters, or book. Got '$(ROOM)' instead))
endif

test-long: $(STAMP) ## the tests that `make test` leaves out: the book at its smallest, in a browser, and what is long by nature
	$(PYTEST) -m "slow or book"

test-all: test test-long ## everything: both

serve: $(STAMP) ## show the built book at http://127.0.0.1:8000 [PROFILE=..., PORT=...]
	@test -f build/$(PROFILE)/html/index.html || { echo "There is no book yet: make book PROFILE=$(PROFILE)" >&2; exit 1; }
	$(BIN)/python -m http.server $(PORT) --bind $(ADDRESS) --directory build/$(PROFILE)/html

# One thread per kernel, as in `make book`: models this small are fastest so.
lab: $(STAMP) ## open the chapters in JupyterLab, widgets live
	OMP_NUM_THREADS=1 PYTHONPATH="$(CURDIR)" PYTHONSTARTUP="$(CURDIR)/book/pipeline/live_startup.py" \
	  $(BIN)/jupyter lab --ServerApp.contents_manager_class=book.pipeline.live.Chapters \
	  --ServerApp.root_dir="$(CURDIR)" --FileContentsManager.preferred_dir="$(CURDIR)/notebooks"

sync: $(STAMP) ## carry an edit of notebooks/*.ipynb over to notebooks/text/*.md, or the other way
	@$(BIN)/python -m book.pipeline.sync

wheel: $(STAMP) ## build the package by itself, for others to install
	rm -rf build/wheel build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	@rm -rf build/lib build/bdist.* && echo build/wheel/*.whl

# Newest versions that resolve together, frozen. Local build tags (+cpu) and what only CUDA wheels need are dropped,
# so the same file serves every platform.
lock: ## renew constraints.txt
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS),cluster]'
	{ grep '^#' constraints.txt; build/lock/bin/python -m pip freeze --exclude-editable \
	  | grep -vE ' @ |^-|^(nvidia|cuda|triton)' | sed -E 's/\+[a-z0-9.]+$$//'; } > build/lock/constraints.txt
	mv build/lock/constraints.txt constraints.txt && rm -rf build/lock

clean: ## remove what was built (the environment and the model cache stay)
	rm -rf build _build .snakemake
