PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYSPARK ?= 4.3
OTHER_VENV := .venv-pyspark-$(PYSPARK)
OTHER_STAMP := $(OTHER_VENV)/.installed
# A checkout's modules are compiled once, as an installed package's are: where this is set, each process does it anew, half a second of it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test check lint fmt sim sim-shrink sim-coverage mutants mutants-security mutants-random chaos queue-fire share-conformance fuzz soak ecosystem spark capture-kills spark-kills bench demo-rebalance clean

help:  ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Make the virtual environment and install everything into it

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77,<82" wheel
	$(BIN)/python -m pip install --quiet --editable ".[dev,pipeline,spark]"
	@touch $@

run: $(STAMP)  ## Play the flights of 2013 through a broker and Spark, check every count (PIPELINE_NODES=3: a cluster whose leaders are killed; ARGS=...)
	$(BIN)/python -m pyspark_jobs.run $(if $(PIPELINE_NODES),--nodes $(PIPELINE_NODES) --kill-leaders) $(ARGS)

test: $(STAMP)  ## Run all tests: units, properties, real clients, Kafka's own tools, Spark (PROCESSES=3 side by side; ARGS=...)
	$(BIN)/pytest --numprocesses $(or $(PROCESSES),3) --max-worker-restart 1 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(STAMP)  ## Check in a few minutes what most changes break: style, types, units, a short simulation (PROCESSES=3 side by side)
	@$(MAKE) lint
	$(BIN)/pytest --numprocesses $(or $(PROCESSES),3) --max-worker-restart 1 --dist loadfile --no-loadscope-reorder -q -m "not spark and not kafka" tests/unit tests/scenarios tests/architecture $(ARGS)
	$(BIN)/python -m esp.simulation run --seeds 12 --first 1

lint: $(STAMP)  ## Check style, types and layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.api_table --check
	$(BIN)/python -m tools.state_diagrams --check
	$(BIN)/python -m tools.settings_table --check
	$(BIN)/python -m tools.rooms --check

fmt: $(STAMP)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sim: $(STAMP)  ## Simulate clusters that misbehave by seed (SEEDS=200 FIRST=1 TIER=nodes; SEED=n: one of them, with its trace; ARGS=...)
	$(BIN)/python -m esp.simulation $(if $(SEED),replay $(SEED) --tier $(or $(TIER),nodes),run --tier $(or $(TIER),nodes) --seeds $(or $(SEEDS),200) --first $(or $(FIRST),1)) $(ARGS)

sim-shrink: $(STAMP)  ## Find fewer faults with which a simulated cluster fails in the same way (SEED=n, ARGS=...)
	$(BIN)/python -m esp.simulation shrink $(SEED) $(ARGS)

sim-coverage: $(STAMP)  ## List the functions of the product that no simulated run enters (SEEDS=40 FIRST=1; ARGS=...)
	$(BIN)/python -m esp.simulation coverage --seeds $(or $(SEEDS),40) --first $(or $(FIRST),1) $(ARGS)

mutants: $(STAMP)  ## Put known bugs back, one at a time, and see each of them caught (ARGS=...)
	$(BIN)/python -m tests.mutants $(ARGS)

mutants-security: $(STAMP)  ## Put bugs of security and of captures back, one at a time, and see each caught by its test (ARGS=NAME)
	$(BIN)/python -m tests.mutants.security_wall $(ARGS)

mutants-random: $(STAMP)  ## Put small bugs in at random places, and list those that nobody notices (N=300 FIRST=1; ARGS=...)
	$(BIN)/python -m tests.mutation --count $(or $(N),300) --first $(or $(FIRST),1) $(ARGS)

fuzz: $(STAMP)  ## Attack a node with hostile clients, and see that it harms nobody else (MINUTES=30, ARGS="--seed N")
	$(BIN)/python -m tests.integration.fuzz --minutes $(or $(MINUTES),30) $(ARGS)

soak: $(STAMP)  ## Use a node for long, and see whether memory and open files stay flat (MINUTES=30)
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30) $(ARGS)

chaos: $(STAMP)  ## Kill, pause, cut and starve the nodes of a real cluster under load, and judge it (MINUTES=30, ARGS="--seed N")
	$(BIN)/python -m tests.integration.chaos --minutes $(or $(MINUTES),30) $(ARGS)

queue-fire: $(STAMP)  ## Kill nodes and members of a share group, and see that each record is accepted once or a dead letter (MINUTES=10, ARGS="--seed N")
	$(BIN)/python -m tests.integration.queue_under_fire --minutes $(or $(MINUTES),10) $(ARGS)

share-conformance: $(STAMP)  ## Run Kafka's own tests of share consumers on a cluster of ours (METHODS="testRenew testPoll"; ARGS="--on esp,kafka")
	$(BIN)/python -m tests.integration.share_conformance $(METHODS) $(ARGS)

ecosystem: $(STAMP)  ## Run Streams, Connect, MirrorMaker, Spark and Kafka's tools on a cluster while they are killed (ARGS="--on kafka": the control)
	$(BIN)/python -m tests.ecosystem $(ARGS)

capture-kills: $(STAMP)  ## Kill runners of a capture, two at once, and see that no record is missing or comes twice (KILLS=20 SEED=1)
	ESP_CAPTURE_KILLS=$(or $(KILLS),20) ESP_CAPTURE_SEED=$(or $(SEED),1) $(BIN)/pytest -n 0 tests/integration/test_capture.py -k kills_of_two_runners $(ARGS)

spark-kills: $(STAMP)  ## Kill everything that an exactly-once query of Spark depends on, and see each row once; then the same with Spark's own sink (KILLS=30 ROWS=100000 SEED=1)
	ESP_SPARK_KILLS=$(or $(KILLS),30) ESP_SPARK_ROWS=$(or $(ROWS),100000) ESP_SPARK_SEED=$(or $(SEED),1) ESP_SPARK_OTHER=1 $(BIN)/pytest -n 0 -rP tests/integration/spark/test_sink_kills.py $(ARGS)

spark: $(OTHER_STAMP)  ## Run the tests of format("esp") on another PySpark, without a jar (PYSPARK=4.3; FILES="some of them", ARGS=...)
	$(OTHER_VENV)/bin/pytest $(or $(FILES),tests/unit/spark tests/unit/options tests/integration/test_esp_*.py \
		tests/integration/spark/test_batch_reads.py tests/integration/spark/test_stream_reads.py tests/integration/spark/test_esp_*.py \
		tests/integration/spark/test_values.py) $(ARGS)

# Without the extra for the pipeline, which names the PySpark that has a Kafka connector.
$(OTHER_STAMP): pyproject.toml
	$(PYTHON) -m venv $(OTHER_VENV)
	$(OTHER_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(OTHER_VENV)/bin/python -m pip install --quiet --editable ".[dev,spark]" "pyspark==$(PYSPARK).*"
	@touch $@

bench: $(STAMP)  ## Measure CPU time beside Kafka 4.3.1 in one run (ARGS=...)
	$(BIN)/python -m benchmarks $(ARGS)

demo-rebalance: $(STAMP)  ## A node joins a cluster under load, another is drained, and what producers feel of it (ARGS=...)
	$(BIN)/python -m benchmarks.rebalance_demo $(ARGS)

clean:  ## Remove what was built; the virtual environment too
	rm -rf $(VENV) .venv-pyspark-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
