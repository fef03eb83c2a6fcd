# One verb, one target. Each does its own set-up (tools/setup) and is quick when nothing has changed.

SETUP := tools/setup/run
BIN := .venv/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test style types bench docs kafka schema-check setup-test clean

help:  ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r verb text; do printf '  make %-12s %s\n' "$$verb" "$$text"; done

demo:  ## load flights through Kafka into Spark (BOOTSTRAP=host:port uses that cluster instead of the embedded broker)
	@$(SETUP) demo -- $(BIN)/python examples/flights/main.py

# Set-up first: what the machine lacks is told before any work. Tests last: their summary closes the run.
test: setup-test style types  ## style, types, and all tests (those that need Java or real Kafka are skipped where these are missing)
	@$(SETUP) test -- $(BIN)/python -m pytest

style:  ## ruff and the layer contracts
	@$(SETUP) style -- $(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo

types:  ## mypy and pyright
	@$(SETUP) types -- $(BIN)/mypy
	@$(BIN)/pyright

bench:  ## measure against the other clients
	@$(SETUP) bench -- $(BIN)/python -m benchmarks

docs:  ## build the documentation into .cache/site
	@$(SETUP) docs -- $(BIN)/sphinx-build -W --keep-going -q docs .cache/site

kafka:  ## fetch the jars of real Kafka (`python -m tests.kafka` then runs a cluster)
	@$(SETUP) kafka

schema-check:  ## compare the messages declared here with those of Kafka (JARS="kafka-clients.jar ..." takes these instead)
	@$(SETUP) schema-check -- $(BIN)/python -m tools.schema_check $(JARS)

clean:  ## remove everything that was made here
	rm -rf .venv .cache build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup-test:
	@$(SETUP) test
