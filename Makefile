# One verb, one target. Each does its own set-up (tools/setup) and is quick when nothing has changed.

SETUP := tools/setup/run
BIN := .venv/bin

# Tests start hundreds of Python processes. Where the environment forbids bytecode, each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# Python would not find the tools and tests, which are not installed.
unexport PYTHONSAFEPATH

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo check test test-all test-rest style types bench bench-quick bench-spark bench-turns bench-docs docs wheels pythons asan kafka schema-check clean

# Without what is slow to start.
HERE := -m "not kafka and not java and not spark and not kerberos and not slow and not extended and not thorough"
WRITTEN_AND_READ := $(addprefix behaviour/test_,produce.py produce_tables.py produce_batches.py consume.py)
# The tests again in pure Python, and again on uvloop: those that each could break.
PURE := $(addprefix tests/,accelerator records producer consumer $(WRITTEN_AND_READ))
UVLOOP := $(addprefix tests/,net cluster producer consumer group broker/test_cluster.py broker/test_wire.py broker/test_peer.py $(WRITTEN_AND_READ))
# The tests again on loops of slow machines: all that depend on time.
TIMED := $(addprefix tests/,net cluster producer consumer group broker behaviour)
# What says most in a minute.
CHECKED := $(addprefix tests/,codec records producer consumer group $(WRITTEN_AND_READ) $(addprefix behaviour/test_,groups.py commits.py run.py exactly_once.py))
# What another release of Python could break: asyncio and the C API are used there.
ELSEWHERE := $(filter-out codec,$(CHECKED:tests/%=%)) accelerator net cluster test_threads.py

help:  ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r verb text; do printf '  make %-12s %s\n' "$$verb" "$$text"; done

demo:  ## load flights through Kafka into Spark (BOOTSTRAP=host:port uses that cluster instead of the embedded broker)
	@$(SETUP) demo -- $(BIN)/python examples/flights/main.py

# Much of a run is waiting, for Java, real Kafka and peers that are slow on purpose: twice as many as there are cores.
WORKERS := $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
SPLIT := --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) $(SPLIT)
# What even `make test-all` leaves to releases: `make test-all THOROUGH=1`.
THOROUGH :=
# On which releases of Kafka tests/compatibility runs: some, separated by commas, or all.
RELEASES := $(if $(THOROUGH),all)
export RELEASES

check:  ## a first answer in a minute or two: style, and the tests of codec, records and clients on the embedded broker
	@$(SETUP) check
	@$(MAKE) --no-print-directory style
	@$(PYTEST) -q $(HERE) $(CHECKED)

# Set-up first: what the machine lacks is reported before any work. The largest part last: its summary closes the run.
test:  ## style, types, and the tests of what a change is likely to break, with real Kafka and Spark where Java is
	@$(SETUP) test
	@$(MAKE) --no-print-directory style
	@$(PYTEST) -q --pure $(HERE) $(PURE)
	@$(PYTEST) -q --loop uvloop $(HERE) $(UVLOOP)
	@$(SETUP) test -- $(PYTEST) -m "not extended and not thorough"
	@echo
	@echo "$(MORE)"

MORE := make test-all adds: the rest of the tests on real Kafka, earlier releases of Kafka and Spark, Spark Connect and Spark on a \
cluster, Kerberos, Java's and other brokers' and clients' own programs, the event loops of slow machines, and other Pythons.

test-all: test test-rest  ## all tests, each once (THOROUGH=1 adds what takes long and is for releases)

test-rest:  ## what `make test-all` adds to `make test`
	@$(SETUP) test-all -- $(BIN)/python -m tools.pythons --bounds --tests $(ELSEWHERE)
	@$(PYTEST) -q --loop coarse $(HERE) $(TIMED)
	@$(PYTEST) -q --loop stalling $(HERE) $(TIMED)
	@$(SETUP) test-all -- $(PYTEST) -m "$(if $(THOROUGH),extended or thorough,extended and not thorough)" --releases "$(RELEASES)"

style:  ## ruff and the layer contracts
	@$(SETUP) style -- $(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo

types:  ## mypy and pyright
	@$(SETUP) types -- $(BIN)/mypy
	@$(BIN)/pyright

bench:  ## measure against the other clients (ARGS="--long" adds what takes minutes)
	@$(SETUP) bench -- $(BIN)/python -m benchmarks $(ARGS)

bench-quick:  ## the same in under a minute: fewer messages, the main clients
	@$(SETUP) bench -- $(BIN)/python -m benchmarks --quick $(ARGS)

bench-spark:  ## measure the PySpark part beside Spark's own connector (ARGS="--scale 0.1" fits some minutes)
	@$(SETUP) test-all -- $(BIN)/python -m benchmarks.spark $(ARGS)

bench-turns:  ## measure how long others wait while a client sends the embedded broker its worst 100 KB
	@$(SETUP) bench -- $(BIN)/python -m benchmarks.brokers.turns $(ARGS)

bench-docs:  ## put the newest run of `make bench`, and new profiles, into docs/performance.md
	@$(SETUP) bench -- $(BIN)/python -m benchmarks.pages
	@$(BIN)/python -m benchmarks.profile produce --clients aiokproto aiokproto-pure --page
	@$(BIN)/python -m benchmarks.profile consume --clients aiokproto aiokproto-pure --page

# In pure Python, since that is the form with the annotations and docstrings.
docs:  ## build the documentation into .cache/site
	@AIOKPROTO_PURE=1 $(SETUP) docs -- $(BIN)/sphinx-build -W --keep-going -q docs .cache/site
	@echo "the documentation: file://$(CURDIR)/.cache/site/index.html"

wheels:  ## build the wheels and the source distribution into dist, and prove each in a virtual environment of its own
	@$(SETUP) wheels -- $(BIN)/python -m tools.wheels

# PURE and UVLOOP as of `make test`: what each could break.
pythons:  ## test on every Python that the machine has, in virtual environments of their own (ONLY="3.10 3.14t", PYTHONS="/opt/a/bin/python3.14t")
	@$(SETUP) pythons -- $(BIN)/python -m tools.pythons --only $(ONLY) --python $(PYTHONS) \
		--pure $(PURE:tests/%=%) test_threads.py --uvloop $(UVLOOP:tests/%=%) test_threads.py

asan:  ## run the accelerator's tests with it compiled for the sanitizers of addresses and undefined behaviour
	@$(SETUP) asan -- $(BIN)/python -m tools.asan

kafka:  ## fetch the jars of real Kafka (`python -m tests.kafka` then runs a cluster; RELEASES=all takes earlier ones)
	@$(SETUP) kafka

schema-check:  ## compare the messages declared here with those of Kafka (JARS="kafka-clients.jar ..." takes these instead)
	@$(SETUP) schema-check -- $(BIN)/python -m tools.schema check $(JARS)

clean:  ## remove everything that was made here
	rm -rf .venv .cache build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
