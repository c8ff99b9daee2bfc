PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# Processes that share the files of tests: one more than CI has cores, since tests wait for servers and browsers.
WORKERS ?= 3
SHARED = -n $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore=tests/cluster

# Tests of what has kernels run twice: the second time interpreted, which shows their lines to coverage
# and stops where machine code would read beside an array.
KERNELS = $(patsubst %/kernels,tests/%,$(wildcard models/*/kernels indexer/*/kernels indexer/*/*/kernels))

# A machine may forbid Python to keep what it compiles: then each of a thousand processes compiles anew what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test style-then-clusters interpreted-then-compiled compiled clusters interpreted times coverage check style install browser databases dist lowest clean

DEVELOPMENT = --editable '.[dask,grpc,http,image,onnx,plot,postgres,ray,redis]' --group dev

# A new virtual environment with polydom, its extras and the development tools, which include those of `boosting`.
install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip uv
	$(BIN)/uv pip install --quiet --python $(VENV) $(DEVELOPMENT) || \
		$(BIN)/pip install --quiet --no-compile $(DEVELOPMENT) # pip reads settings of a registry that uv does not
	touch $@

# Pages are tested in a browser: Chromium without a screen takes half of the processor time; else one that is here, or Debian's.
APT = apt-get install -y --no-install-recommends fonts-liberation

browser:
	@command -v chromium-headless-shell >/dev/null || \
		{ apt-get update && $(APT) chromium-headless-shell; } >/dev/null 2>&1 || \
		{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || \
		$(APT) chromium >/dev/null 2>&1 || \
		echo "no Chromium here, and apt-get gave none: tests of the pages will be skipped, and fail where CI=true"

# Fetches are tested with real databases. Debian's `postgres` is not on the path; only root may install it.
AS_ROOT = $(shell test "$$(id -u)" = 0 || echo sudo -n)

databases: browser # which uses apt-get, too
	@{ command -v redis-server && { command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; }; } >/dev/null 2>&1 || \
		{ $(AS_ROOT) apt-get update && $(AS_ROOT) apt-get install -y --no-install-recommends redis-server postgresql; } >/dev/null 2>&1 || \
		echo "no Redis or PostgreSQL here, and apt-get gave none: tests that ask them will be skipped, and fail where CI=true"

# Build an index from real images, serve it, ask it at several budgets.
demo: install
	$(BIN)/python docs/demo/demo.py

# Everything that must hold before a change lands.
test:
	$(MAKE) -j2 install databases
	$(MAKE) -j2 style-then-clusters interpreted-then-compiled
	$(MAKE) times

# Neither core waits for the other's part. Of `check`, tests of the pages build the documents as strictly.
style-then-clusters:
	$(MAKE) style
	$(MAKE) clusters

interpreted-then-compiled:
	$(MAKE) interpreted
	$(MAKE) compiled

# Threads of libraries wait for one another by spinning, for minutes where two processes share the cores.
# LightGBM has as many as there are cores, whatever it is told: they are to sleep meanwhile.
compiled clusters interpreted: export OMP_NUM_THREADS = 1
compiled clusters interpreted: export OMP_WAIT_POLICY = passive

compiled:
	$(BIN)/pytest -q $(SHARED) --junitxml=build/times/compiled.xml

# Apart from all others: threads that clusters leave behind draw random numbers while Hypothesis does.
clusters:
	$(BIN)/pytest -q -p no:cacheprovider --junitxml=build/times/clusters.xml tests/cluster

interpreted:
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -m 'not jit' -p no:cacheprovider --junitxml=build/times/interpreted.xml $(KERNELS)

# Lines and branches that no test runs: interpreted in what has kernels, compiled elsewhere.
coverage: export OMP_NUM_THREADS = 1
coverage: export OMP_WAIT_POLICY = passive
coverage: install
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest -q $(SHARED)
	$(BIN)/coverage run -m pytest -q tests/cluster
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q -m 'not jit' $(KERNELS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Seconds that each file of tests took when it last ran, the longest first.
times:
	@$(BIN)/python tools/time_tests.py build/times/*.xml

check: style
	$(BIN)/zensical build --strict # every link of the documents

style: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# What is published: an sdist, and the wheel that is built from it.
dist: install
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

LOWEST = build/lowest

# The suite's main parts, with the lowest versions that pyproject.toml allows in an environment of their own.
lowest: export OMP_NUM_THREADS = 1
lowest:
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/pip install --quiet uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct --all-extras pyproject.toml --output-file $(LOWEST).txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --requirement $(LOWEST).txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --constraint $(LOWEST).txt --editable . httpx httpx2 hypothesis 'pandas<3' 'polars<2' pytest PyYAML
	$(LOWEST)/bin/pytest -q -W default tests/features tests/models tests/indexer tests/server tests/system/test_serve.py \
		--ignore=tests/server/oip --ignore=tests/server/v1/test_openapi.py # other tools refuse such versions

clean:
	rm -rf $(VENV) build dist *.egg-info .polydom-cache .mypy_cache .ruff_cache
