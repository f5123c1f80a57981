# `make` lists the targets with the text after `##`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.setup

# uv does not read pip's settings: pass on the package index of pip.
ifneq ($(PIP_INDEX_URL),)
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
# Without cached byte code, each of the hundreds of processes of the tests compiles its modules again.
unexport PYTHONDONTWRITEBYTECODE
# PySpark is a download of 450 MB, which can be slow.
export UV_HTTP_TIMEOUT ?= 600

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-rest test-changed prove test-latest test-upstream test-spark test-oldest test-lowest test-python check dist bench bench-quick mutate docs lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv with all packages of requirements.lock (PYTHON=python3.12 selects another Python)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "lakeconf needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Choose another: make PYTHON=python3.12 setup")'
	@test -x $(BIN)/uv || { echo "Making .venv"; $(PYTHON) -m venv --clear .venv && $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .ci/uv.txt; }
	@echo "Installing requirements.lock (the first time takes some minutes: PySpark is 450 MB; later it comes from uv's cache)"
	@$(BIN)/uv pip install --python $(BIN)/python --requirements requirements.lock
	@$(BIN)/uv pip install --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: setup ## Run the main job: 50,000 events into a lake with Spark, daily revenue with narwhals, checked by DuckDB
	@$(BIN)/python examples/main_job/make_events.py
	@$(BIN)/python examples/main_job/job.py

CLASSES := .venv/spark-classes.jsa

# Java starts without it if its version has no such archives.
$(CLASSES): $(STAMP)
	@echo "Archiving Spark's classes, so that the tests start Java faster"
	@$(BIN)/python tests/support/spark_classes.py $@ > $@.log 2>&1 || echo "Failed; see $@.log"

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal $(if $(TEST_SEED),--randomly-seed=$(TEST_SEED))

test: setup $(CLASSES) ## Run the quick tests, in at most five minutes
	@$(PYTEST) --tier quick

test-rest: setup $(CLASSES) ## Run the tests that are marked as slow, and the tests of several catalogs on PostgreSQL (PART=1/2 runs half)
	@$(PYTEST) --tier rest $(if $(PART),--part=$(PART))

test-all: setup $(CLASSES) ## Run all tests but those marked `prove`: `make test` and `make test-rest` in one
	@$(PYTEST)

# The folder of tests of each changed folder of the package, and changed tests.
test-changed: setup ## Run the quick tests for the uncommitted changes, until one fails
	@$(BIN)/python -m pytest -x -q --tier quick $$({ git diff --name-only HEAD; git ls-files --others --exclude-standard; } \
		| sed -nE 's#^lakeconf/([a-z_]+)/.*#tests/\1#p; s#^lakeconf/([a-z_]+)\.py#tests/test_\1.py#p; s#^(tests/.*/test_.*\.py)#\1#p' \
		| sort -u | xargs -r ls -d 2>/dev/null)

prove: setup ## Run all tests, also those marked `prove`, with many more examples for each property
	@LAKECONF_PROVE=1 $(BIN)/python -m pytest -n 2 --dist worksteal -o timeout=0

test-upstream: setup ## Try the open issues of DuckLake again: it accepts a new version of DuckDB and its extensions
	@$(BIN)/python -m pytest tests/upstream

# dbt-core is not upgraded: 1.12 downloads a wheel from GitHub while it is installed.
test-latest: setup ## Run the tests of the integrations with the newest versions of the other tools
	@$(PYTHON) -m venv --clear .venv-latest
	@printf '%s\n' narwhals pydantic polars sqlmesh dbt-duckdb 'dlt[ducklake]' dagster 'pathspec>=1' > .venv-latest/newest
	@$(BIN)/uv pip install --python .venv-latest/bin/python --upgrade --no-config --override .venv-latest/newest \
		--editable '.[polars,sqlmesh,dbt,dlt,dagster,bundled,spark,dev]'
	@.venv-latest/bin/python -m pytest tests/integrations tests/lake/test_narwhals_parity.py

# Of Spark's SQL by name; the random statements have quotes in texts, which Spark 4.0 reads in another way.
NAMED_TESTS := tests/lake/test_named_dialects.py tests/lake/test_named_procedures.py tests/lake/test_named_reads.py tests/lake/test_named_views.py \
	tests/lake/test_named_writes.py
SPARK_TESTS := tests/engines/spark tests/differential tests/commit tests/write/test_merge.py tests/inspection/test_verify.py \
	tests/test_pyspark_lakeconf.py tests/lake/test_streaming.py $(NAMED_TESTS)
# What every change runs with the oldest Spark.
OLDEST_TESTS := tests/differential tests/write/test_merge.py tests/test_pyspark_lakeconf.py tests/engines/spark/read/test_deletes.py \
	$(NAMED_TESTS)

# Older versions of PySpark leave sockets open, and call what other packages have deprecated since.
SPARK_WARNINGS := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning -W ignore::DeprecationWarning

# The oldest supported version, unless another is given: pyproject.toml and lakeconf/engines/spark/versions.py say which.
SPARK ?= 4.0.5
MATRIX := --write-matrix

test-spark: setup ## Run the Spark tests with an older Spark, as in `make test-spark SPARK=4.1.4`, and write its line in docs/platforms.md
	@$(PYTHON) -m venv --clear .venv-spark
	@sed -e '/^ *--hash/d' -e 's/ \\$$//' -e 's/^pyspark==.*/pyspark==$(SPARK)/' requirements.lock > .venv-spark/requirements
	@$(BIN)/uv pip install --python .venv-spark/bin/python --requirements .venv-spark/requirements
	@$(BIN)/uv pip install --python .venv-spark/bin/python --no-deps --editable .
	@.venv-spark/bin/python -m pytest $(MATRIX) $(SPARK_WARNINGS) $(SPARK_TESTS)
	@LAKECONF_CONNECT_SERVER=$(CURDIR)/$(BIN)/python .venv-spark/bin/python -m pytest $(SPARK_WARNINGS) -k connect \
		tests/differential/test_random_lakes.py

test-oldest: ## Run some Spark tests with the oldest supported Spark
	@$(MAKE) test-spark MATRIX= SPARK_TESTS="$(OLDEST_TESTS)"

# What does not depend on the versions, or is about newer ones: tools of the site and of packaging, the integrations, which
# have narrow ranges, the `%` of newer narwhals, types of newer Arrow and Polars, and Polars, which hides interrupts before 2.
LOWEST_LEAVES_OUT := --ignore tests/docs --ignore tests/test_install.py --ignore tests/test_public_interface.py \
	--ignore tests/integrations --ignore tests/lake/test_narwhals_parity.py \
	--deselect tests/catalog/predicate/test_parse.py::test_the_rest_of_a_condition_is_an_expression \
	--deselect tests/engines/test_pandas_frames.py::test_known_extension_types_keep_their_meaning \
	--deselect tests/engines/test_pandas_frames.py::test_frame_with_a_type_that_duckdb_lacks_is_refused \
	--deselect tests/connection/test_connection.py::test_interrupt_and_exit_in_a_frame_are_raised

test-lowest: setup ## Run the quick tests with the lowest version of each dependency
	@$(PYTHON) -m venv --clear .venv-lowest
	@$(BIN)/python tests/support/lowest_versions.py > .venv-lowest/versions
	@$(BIN)/uv pip install --python .venv-lowest/bin/python --override .venv-lowest/versions \
		--editable '.[spark,connect,arrow,polars,dotenv,openlineage,report,delta,iceberg,bundled,dev]'
	@LAKECONF_CONNECT_SERVER=$(CURDIR)/$(BIN)/python .venv-lowest/bin/python -m pytest -n 2 --dist worksteal --tier quick \
		$(SPARK_WARNINGS) $(LOWEST_LEAVES_OUT)

test-python: setup ## Run the quick tests with each Python of 3.11 to 3.14 that is installed
	@for version in 3.11 3.12 3.13 3.14; do \
		command -v python$$version >/dev/null || { echo "python$$version is not installed: not tested"; continue; }; \
		python$$version -m venv --clear .venv-python && \
		$(BIN)/uv pip install --quiet --python .venv-python/bin/python --requirements requirements.lock --requirements .ci/uv.txt && \
		$(BIN)/uv pip install --quiet --python .venv-python/bin/python --no-deps --editable . && \
		.venv-python/bin/python -m pytest -n 2 --dist worksteal --tier quick || exit 1; \
	done

check: setup ## Check formatting, lint, types, workflows and the links of the documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --allow-untyped-decorators tests
	@$(BIN)/actionlint
	@$(BIN)/zizmor --offline --persona pedantic --quiet --no-progress .github action.yml
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/checked-site

bench: setup ## Run all benchmarks: ratios against other tools on the same data
	@for file in $$(ls benchmarks/*.py | grep -Ev 'quick|ratios|rivals'); do echo "$$file"; $(BIN)/python $$file || exit 1; done

bench-quick: setup ## Compare a few ratios with the recorded ones, in at most three minutes
	@$(BIN)/python benchmarks/quick.py

# All mutants take many hours: choose some, as in `make mutate MUTANTS="lakeconf.guard.*"`.
MUTANTS ?=

mutate: setup ## Mutation testing of the core: list the changes of the code that no test notices
	@$(BIN)/uv pip install --quiet --python $(BIN)/python mutmut==3.8.1
	@$(BIN)/mutmut run $(foreach name,$(MUTANTS),"$(name)")
	@$(BIN)/mutmut results

# Without `setup`, which builds packages with tools of any version: nothing but pinned wheels may touch these files.
# `uv build` takes its build tools from the file that pins those of the action.
dist: ## Build and check the files of a release below dist; TAG=v0.1.0 must be the version
	@test "$(TAG)" = "" -o "$(TAG)" = "v$$($(PYTHON) -c 'import lakeconf; print(lakeconf.__version__)')" \
		|| { echo "lakeconf/__init__.py has another version than the tag $(TAG)"; exit 1; }
	@test "$(TAG)" = "" || grep -Eq "^## \[$(TAG:v%=%)\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$$" CHANGELOG.md \
		|| { echo "CHANGELOG.md has no section with a date for $(TAG)"; exit 1; }
	@rm -rf dist
	@$(PYTHON) -m venv --clear .venv-dist
	@.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .ci/uv.txt
	@sed -nE 's/^((twine|check-wheel-contents)==[^ ]+).*/\1/p' requirements.lock > .venv-dist/tools
	@.venv-dist/bin/uv pip install --quiet --no-config --no-build --require-hashes --python .venv-dist/bin/python \
		--constraints requirements.lock --requirements .venv-dist/tools
	@.venv-dist/bin/uv build --quiet --build-constraints action-requirements.txt --require-hashes
	@.venv-dist/bin/twine check --strict dist/*
	@.venv-dist/bin/check-wheel-contents dist

docs: setup ## Build the site of the documentation below build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

lock: setup ## Update requirements.lock, for all supported versions of Python and all platforms
	@$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --upgrade --quiet \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --generate-hashes --output-file requirements.lock

clean: ## Remove the demo's lake, caches and built files, but not .venv
	@rm -rf .lakeconf mutants .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist spark-warehouse
	@find lakeconf tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
