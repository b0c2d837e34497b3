# The same commands for people and for machines. Needs Python >= 3.11 (with pip and venv) and make; all else is
# installed into .venv here. PYTHON=… chooses the interpreter, ARGS=… goes to the command of the target.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without bytecode on disk every process would compile 400 modules again when it starts: nearly a second.
export PYTHONDONTWRITEBYTECODE :=

# The installation links the files that are there; a file that comes or goes changes this number and is linked anew.
LINKED := $(VENV)/.linked-$(shell find schemas streams workers deploy -type f \
	\( -name '*.py' -o -name 'py.typed' -o -name '*.lua' -o -name '*.json' -o -name '*.jsonl' \
	-o -name '*.html' -o -name '*.css' -o -name '*.js' -o -name '*.mjs' -o -name 'VENDORED.txt' \) \
	| LC_ALL=C sort | cksum | cut -d ' ' -f 1)

.PHONY: help
help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- use it

.PHONY: demo
demo: install  ## play a conversation through the embedded servers and ask about it (ARGS="--questions 3")
	$(BIN)/eunoe demo $(ARGS)

.PHONY: up
up: install  ## start the embedded servers and all stages, until Ctrl-C
	$(BIN)/eunoe up $(ARGS)

.PHONY: bench-ask
bench-ask: install  ## measure the round trip of 50 asks on the embedded servers
	$(BIN)/python -m tests.bench ask $(ARGS)

.PHONY: bench-idle
bench-idle: install  ## measure `eunoe up` without traffic: processor time and memory by process, asks after a silence
	$(BIN)/python -m tests.bench idle $(ARGS)

.PHONY: bench-memory
bench-memory: install  ## measure the bytes in Redis of one growing conversation, per session, by stage and table
	$(BIN)/python -m tests.bench memory $(ARGS)

.PHONY: bench-life
bench-life: install  ## many conversations, half of them cold, and a long one: bytes by place, asks, plots; then a rebuild of all
	$(BIN)/python -m tests.bench life $(ARGS)

.PHONY: bench-soak
bench-soak: install  ## mixed traffic on a system of its own, judged: asks, freshness, lag, memory (ARGS="--minutes 5 --rate 2")
	$(BIN)/eunoe bench soak --report reports $(ARGS)

.PHONY: bench
bench: install  ## measure the whole way of sessions on the embedded servers, with a model that takes 0.2 s
	$(BIN)/python -m tests.bench pipeline $(ARGS)

.PHONY: bench-peers
bench-peers: install  ## beside mem0 on the same stub of a model (PEERS=FOLDER of stub_llm.py and peer_mem0.py)
	@if [ -z "$(PEERS)" ]; then echo "make bench-peers: set PEERS to the folder of stub_llm.py and peer_mem0.py" >&2; exit 2; fi
	@if [ ! -x $(VENV)-mem0/bin/python ]; then \
		$(BIN)/python -m venv $(VENV)-mem0; $(VENV)-mem0/bin/pip install --quiet mem0ai==2.2.1; \
	fi
	$(BIN)/python -m tests.bench.bench_peers --peers $(PEERS) --peer-python $(VENV)-mem0/bin/python $(ARGS)

.PHONY: bench-compare
bench-compare: install  ## this checkout and another revision (BASE=REVISION), alternating: ratios of all figures
	@if [ -z "$(BASE)" ]; then echo "make bench-compare: set BASE to the revision to compare with" >&2; exit 2; fi
	$(BIN)/python -m tests.bench.bench_compare $(BASE) $(ARGS)

.PHONY: bench-backpressure
bench-backpressure: install  ## measure a worker's memory while 100,000 events wait for a slow model
	$(BIN)/python -m tests.bench.bench_backpressure $(ARGS)

.PHONY: bench-gateway
bench-gateway: install  ## measure what the gateway adds to an event and to an ask, both ways by turns
	$(BIN)/python -m tests.bench.bench_gateway $(ARGS)

.PHONY: load-gateway
load-gateway: install  ## load on two gateways beside an import, while servers fail (three brokers of Apache Kafka; ARGS=--brief: half a minute)
	$(BIN)/python -m tests.faults.gateway $(ARGS)

.PHONY: bench-timelines
bench-timelines: install  ## measure a timeline query in a component of 10,000 memories
	$(BIN)/python -m tests.bench.bench_timelines $(ARGS)

.PHONY: bench-tree
bench-tree: install  ## measure how the tree grows (DATA=FILE: memory lines as JSON; draws reports/tree.png)
	@if [ -z "$(DATA)" ]; then echo "make bench-tree: set DATA to a file of memory lines" >&2; exit 2; fi
	@mkdir -p reports
	$(BIN)/python -m tests.bench.bench_tree --data $(DATA) --plot reports/tree.png $(ARGS)

# ---- check it

PYTEST := $(BIN)/python -m pytest
# The longest tests come first, so that no process is left alone with one at the end.
SUITES := tests/faults tests/broker tests/clients tests/fuzz tests/contract tests/packaging
BY_FILE := --dist loadfile --no-loadscope-reorder
# How many processes run the tests that start servers: three keep two cores busy, for each waits for its servers a third of
# the time. JOBS=0 runs them in one, with their output.
JOBS ?= 3
# Each of them has a Kafka of its own, which is a core.
KAFKA_JOBS ?= 2
# Where the broker does not matter: the same on Apache Kafka as on the embedded one, so that they run once.
BROKERLESS := tests/clients/test_typescript.py tests/clients/test_page_clock.py

# mypy takes one core, and half a minute of it: it runs beside the tests, with the jobs of the make around it where it has some.
.PHONY: check
check: lint  ## five minutes: formatting, rules, import contracts, types, the tests that need no server
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs=2) type test-unit

.PHONY: test
test: check  ## ten minutes: check, and all tests on the embedded servers but the slow ones
	$(PYTEST) $(SUITES) -m "not slow" -n $(JOBS) $(BY_FILE) $(ARGS)

.PHONY: test-slow
test-slow: install  ## what `make test` leaves out: generations, faults, 100 seeds of crashes, some fuzzing, the wheel in an empty environment
	$(PYTEST) $(SUITES) tests/unit -m slow -n $(JOBS) $(BY_FILE) $(ARGS)

.PHONY: test-openapi
test-openapi: install  ## the gateway answers as its OpenAPI document says, to requests derived from it: they take 15 s to be collected
	$(PYTEST) tests/openapi $(ARGS)

BYSTANDERS ?= 100
.PHONY: test-bystanders
test-bystanders: install  ## every hostile input of the suite beside BYSTANDERS conversations, and what they remember without it
	BYSTANDERS=$(BYSTANDERS) $(PYTEST) tests/broker/test_bystanders.py::test_bystanders_notice_no_hostile_input -s $(ARGS)

FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
.PHONY: test-fuzz
test-fuzz: install  ## random records and batches on all topics for FUZZ_SECONDS, while others ask (FUZZ_SEED=N: those of a failure)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(PYTEST) tests/fuzz -s $(ARGS)

.PHONY: test-all
test-all: test test-slow test-openapi  ## everything

.PHONY: test-unit
test-unit: install  ## the tests that need no server
	$(PYTEST) tests/unit -m "not slow" -n auto --dist worksteal $(ARGS)

.PHONY: graph
graph: install  ## print the imports between packages, and check their layers
	$(BIN)/python -m tests.graph

.PHONY: test-broker
test-broker: install  ## the tests on the embedded servers
	$(PYTEST) tests/contract tests/broker $(ARGS)

.PHONY: test-kafka
test-kafka: install  ## the broker and client suites on Apache Kafka, which Maven fetches; needs Java 17 and Maven
	$(BIN)/python -m tests.support.kafka --fetch
	EUNOE_TEST_BROKER=kafka $(PYTEST) -n $(KAFKA_JOBS) $(BY_FILE) tests/contract/test_publisher.py tests/broker tests/clients \
		$(addprefix --ignore=,$(BROKERLESS)) $(ARGS)
	$(BIN)/python -m tests.faults --kafka --conversations 40 --faults kill9,sigstop,broker-restart,broker-loss

.PHONY: test-kafka-brief
test-kafka-brief: install  ## of these the suites that are about the broker itself, in five minutes
	$(BIN)/python -m tests.support.kafka --fetch
	EUNOE_TEST_BROKER=kafka $(PYTEST) -n $(KAFKA_JOBS) $(BY_FILE) $(addprefix --ignore=,$(BROKERLESS)) \
		tests/broker/test_streams_app.py tests/broker/test_kafka_cluster.py tests/broker/test_erased_bytes_kafka.py \
		tests/broker/test_client.py tests/broker/test_bystanders.py tests/clients tests/contract/test_publisher.py \
		tests/broker/test_secured_servers.py::test_kafka_with_sasl_and_tls_serves_the_pipeline \
		--deselect tests/broker/test_bystanders.py::test_bystanders_notice_no_hostile_input $(ARGS)

.PHONY: test-faults
test-faults: install  ## kill, pause and starve everything; what is remembered must not differ (ARGS="--faults kill9,sigstop --seed 1")
	$(BIN)/python -m tests.faults $(ARGS)

SOAK_MINUTES ?= 30
.PHONY: soak
soak: install  ## the same with random faults for SOAK_MINUTES
	$(BIN)/python -m tests.faults --minutes $(SOAK_MINUTES) $(ARGS)

.PHONY: test-llmlingua
test-llmlingua: install  ## the tests of the extras llmlingua and fastembed, in an environment of their own (3 GB)
	$(BIN)/python -m venv $(VENV)-extras
	$(VENV)-extras/bin/pip install --quiet --editable '.[llmlingua,fastembed]' onnx pytest pytest-asyncio pytest-timeout hypothesis
	HF_HUB_OFFLINE=1 $(VENV)-extras/bin/python -m pytest tests/llmlingua $(ARGS)

.PHONY: test-alerts
test-alerts: install  ## the alert rules, on what each must fire and on what not; Prometheus (Debian's, where there is none) scrapes `eunoe up`
	code=0; $(BIN)/python -m tests.support.prometheus || code=$$?; \
		if [ $$code = 69 ]; then echo '!!!!!!!! NOT RUN: make test-alerts (see above) !!!!!!!!' >&2; \
		elif [ $$code != 0 ]; then exit $$code; else $(PYTEST) tests/alerts $(ARGS); fi

.PHONY: test-chart
test-chart: install  ## the Helm chart, rendered and checked by the schemas of Kubernetes; Go builds Helm once (ten minutes)
	code=0; $(BIN)/python -m tests.support.kubernetes || code=$$?; \
		if [ $$code = 69 ]; then echo '!!!!!!!! NOT RUN: make test-chart (see above) !!!!!!!!' >&2; \
		elif [ $$code != 0 ]; then exit $$code; else $(PYTEST) tests/chart $(ARGS); fi

.PHONY: test-examples
test-examples: install  ## the examples for LangGraph and the OpenAI Agents SDK, with these in an environment of their own
	$(BIN)/python -m venv $(VENV)-examples
	$(VENV)-examples/bin/pip install --quiet --editable . langgraph==1.2.22 openai-agents==0.24.0 \
		httpx pytest pytest-asyncio pytest-timeout hypothesis
	$(VENV)-examples/bin/python -m pytest tests/examples $(ARGS)

# An environment that sees the packages of .venv, and has what else these tests need.
BROWSER := --quiet playwright==1.65.2 brotli
SITE = import sysconfig; print(sysconfig.get_path("purelib"))
$(VENV)-browser/.made: $(VENV)/.made
	$(BIN)/python -m venv --clear --without-pip $(VENV)-browser
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(SITE)')')" \
		> "$$($(VENV)-browser/bin/python -c '$(SITE)')/shared.pth"
	@touch $@

.PHONY: test-browser
test-browser: install $(VENV)-browser/.made  ## the page in Chromium, which npm fetches where there is none; pictures into reports/page
	$(BIN)/uv pip install --python $(VENV)-browser/bin/python $(BROWSER) || \
		$(BIN)/python -m pip --python $(VENV)-browser/bin/python install $(BROWSER)
	$(VENV)-browser/bin/python -m tests.browser.chromium
	EUNOE_BROWSER_REQUIRED=1 $(VENV)-browser/bin/python -m pytest tests/browser $(ARGS)

.PHONY: test-browser-brief
test-browser-brief: ARGS += -m 'not slow'
test-browser-brief: test-browser  ## its core: each view, the most telling ones in the dark and on a phone, keyboard, faults, hostile texts

.PHONY: pictures
pictures: ARGS += -k 'is_shown or leads_to or someone_new or 10_000'
pictures: test-browser  ## pictures of the page into reports/page, and those of the README into deploy/docs/pictures
	cp reports/page/asked-light.png deploy/docs/pictures/why.png
	cp reports/page/sessions-dark.png deploy/docs/pictures/sessions.png

.PHONY: test-servers
test-servers: servers-given install  ## the contract and broker suites and the demo, with names of their own, on servers of yours: EUNOE_KAFKA, EUNOE_REDIS_URL, EUNOE_QDRANT_URL
	$(PYTEST) tests/contract tests/broker $(ARGS)
	prefix=demo-$$(date +%s)-$$$$; code=0; EUNOE_PREFIX=$$prefix $(BIN)/eunoe demo --attach || code=$$?; \
		$(BIN)/python -m tests.support.cleanup $$prefix && exit $$code

.PHONY: servers-given
servers-given:
	@for name in EUNOE_KAFKA EUNOE_REDIS_URL EUNOE_QDRANT_URL; do \
		if [ -z "$${!name:-}" ]; then \
			echo "make test-servers: set EUNOE_KAFKA, EUNOE_REDIS_URL and EUNOE_QDRANT_URL; $$name is not set" >&2; exit 2; \
		fi; \
	done

.PHONY: lint
lint: install  ## formatting, rules, and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

.PHONY: type
type: install  ## mypy, strict
	$(BIN)/mypy

.PHONY: fmt
fmt: install  ## format, and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# ---- write what is derived

.PHONY: contracts
contracts: install  ## write what is derived: JSON Schemas, AsyncAPI, tables of stages and settings, compose services, the dashboard, the chart
	$(BIN)/eunoe schemas deploy/contracts
	$(BIN)/python -m tests.support.derived.files

.PHONY: docs
docs: install  ## build the documentation site into reports/site; a link that leads nowhere is an error
	$(BIN)/properdocs build --strict --config-file deploy/properdocs.yml $(ARGS)

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
.PHONY: lock
lock: $(VENV)/.made  ## resolve pyproject.toml into the lock files (ARGS=--upgrade)
	$(BIN)/pip install --quiet $(UV)
	$(COMPILE) $(ARGS) --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --constraint requirements.lock --extra cold --extra otel pyproject.toml -o deploy/runtime.lock

.PHONY: wheel
wheel: install  ## build dist/eunoe-….whl
	$(BIN)/python -m build --wheel $(ARGS)

.PHONY: image
image:  ## build the container image eunoe (needs Docker)
	docker build --file deploy/Dockerfile --tag eunoe $(ARGS) .

# ---- set it up

.PHONY: install
install: $(LINKED)  ## set up .venv (every target that needs it does so itself)

$(VENV)/.made:
	@for python in $(PYTHONS); do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then \
			echo "$$python -m venv $(VENV)"; $$python -m venv --clear $(VENV); touch $@; exit 0; \
		fi; \
	done; \
	echo "make: needs Python 3.11 or newer; none of these is: $(PYTHONS) (choose one with PYTHON=…)" >&2; exit 2

# uv does what pip does with the lock file, in a quarter of the time; it does not read pip's settings of an index.
UV := uv==0.13.9
export UV_SYSTEM_CERTS := true
LOCKED := --quiet --require-hashes --requirement requirements.lock
$(VENV)/.locked: requirements.lock $(VENV)/.made
	$(BIN)/python -m pip install --quiet $(UV)
	$(BIN)/uv pip install --python $(BIN)/python --compile-bytecode $(LOCKED) || $(BIN)/python -m pip install $(LOCKED)
	@touch $@

$(LINKED): pyproject.toml setup.py $(VENV)/.locked
	@rm -f $(VENV)/.linked-*
	$(BIN)/python -m pip install --quiet --no-deps --editable . --config-settings editable_mode=strict
	@touch $@

.PHONY: clean
clean:  ## remove what was built and cached (.venv stays)
	rm -rf build dist *.egg-info reports .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f $(VENV)/.linked-*
	find schemas streams workers deploy tests -type d -name __pycache__ -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean  ## remove .venv too, and the environments beside it
	rm -rf $(VENV) $(VENV)-{browser,examples,extras,mem0}
