PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test compiled interpreted check install clean

# A new virtual environment with polydom, its extras and the development tools.
install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[boosting,grpc,image,parquet,plot]' --group dev
	touch $@

# Build an index from real images, serve it, ask it at several budgets.
demo: install
	$(BIN)/python docs/demo/demo.py

# Everything that must hold before a change lands.
# The two runs are of one process each, so they go side by side.
test: check
	$(MAKE) -j2 compiled interpreted

compiled:
	$(BIN)/pytest -q

interpreted:
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -m 'not jit' -p no:cacheprovider

check: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist *.egg-info .polydom-cache .mypy_cache .ruff_cache
