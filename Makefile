# Trainyard. `make help` lists what there is to do.
ENV ?= local
UV_VERSION := 0.13.8
PYTHON ?= python3

UV := .tools/uv/bin/uv
PY := .venv/bin/python
CDK := node_modules/.bin/cdk
export UV_PYTHON_DOWNLOADS := never
export PYTHONDONTWRITEBYTECODE :=
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

DIFF_OPTIONS = $(if $(FORMAT),--format $(FORMAT)) $(if $(OUTPUT),--output $(OUTPUT))
PYTEST := .venv/bin/pytest
QUICK := not e2e and not lifecycle and not lab
SHELL_SCRIPTS = $(shell git ls-files '*.sh' '*.sbatch' 'local/pipeline/tools/*' .ci/run)

.DEFAULT_GOAL := help
.PHONY: help tools setup setup-steps up down diff preflight validate drift promote status lab lab-down synth schema golden check lint format test test-fast mutants clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-10s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  ENV=<name> picks environments/<name>.yaml (now: $(ENV)). PORT=<number> moves the local world's ports."

tools: # the tools of the machine itself, looked for each time: a shell may have lost one since the set-up
	@scripts/require-tools.sh $(PYTHON)

setup: tools .venv/.ready parallelcluster/.venv/.ready local/.venv/.ready node_modules/.ready local/node_modules/.ready ## Install everything, pinned, inside this folder

# What the steps of a pipeline run with: no emulated AWS.
setup-steps: tools .venv/.ready parallelcluster/.venv/.ready node_modules/.ready

up: setup ## Deploy ENV to an emulated AWS on loopback and create its cluster with the genuine ParallelCluster API
	@$(PY) -m local up $(ENV) $(if $(PORT),--port $(PORT)) $(if $(filter no,$(HELLO)),--no-hello)

down: setup ## Destroy ENV in the emulated AWS and stop it (DELETE_DATA=yes: also where buckets hold data)
	@$(PY) -m local down $(ENV) $(if $(filter yes,$(DELETE_DATA)),--delete-data) $(if $(filter yes,$(FORCE)),--force)

# The exit status of the commands is the verdict, which make has no way to hand on: CI runs them without make.
diff: setup ## What a change does: ENV against the emulated AWS, AGAINST=<git revision>, or ON=aws (FORMAT=markdown|json)
	@if [ -n "$(AGAINST)" ]; then $(PY) -m ops.review diff $(ENV) --against "$(AGAINST)" $(DIFF_OPTIONS); \
	elif [ "$(ON)" = aws ]; then $(PY) -m ops.review diff $(ENV) $(DIFF_OPTIONS); \
	else $(PY) -m local diff $(ENV) $(DIFF_OPTIONS); fi || [ $$? -lt 4 ]

# ON=aws asks AWS with your credentials; else the emulated AWS is asked, and started empty where none runs.
ASKED = $(if $(filter-out aws,$(ON)),$(error ON is '$(ON)'; allowed: aws, or nothing for the emulated AWS))$(if $(filter aws,$(ON)),,$(PY) -m local exec $(ENV) $(if $(PORT),--port $(PORT)) --start --)

preflight: setup ## Ask, before money is spent, whether the account can hold ENV: capacity, quotas, addresses (ON=aws)
	@$(ASKED) $(PY) -m ops.preflight $(ENV) $(DIFF_OPTIONS)

validate: setup ## Run scans, hello-gpu, NCCL and storage checks on the cluster of ENV, through SSM (ON=aws)
	@$(ASKED) $(PY) -m ops.validation $(ENV) $(DIFF_OPTIONS)

drift: setup ## Compare what stands with what the file of ENV says (ON=aws)
	@$(ASKED) $(PY) -m ops.drift $(ENV) $(DIFF_OPTIONS)

# 3 is a walk that waits for a person: not a failure.
promote: setup ## Walk a pipeline in an emulated AWS, through its gates to its last stage (PIPELINE= RESUME=yes APPROVE= SKIP=)
	@$(PY) -m local.pipeline $(if $(filter yes,$(RESUME)),resume,walk) $(or $(PIPELINE),promotion) \
	  $(addprefix --approve ,$(APPROVE)) $(if $(SKIP),--skip '$(SKIP)') || [ $$? -eq 3 ]

status: setup ## Show what is deployed in the emulated AWS
	@$(PY) -m local status $(ENV)

lab: setup ## A real Slurm on this machine with the bootstrap and jobs of ENV, and a shell on its head node (root, Debian)
	@scripts/install-lab-packages.sh
	@$(PY) -m local.slurm up --environment environments/$(ENV).yaml --powered-down
	@$(PY) -m local.slurm shell

lab-down: setup ## End the laboratory
	@$(PY) -m local.slurm down

check: .venv/.ready ## Check the environment file ENV, or the pipeline file PIPELINE=<name>, without synthesizing it
	@$(PY) -m settings $(if $(PIPELINE),check-pipeline environments/pipelines/$(PIPELINE).yaml,check environments/$(ENV).yaml)

synth: .venv/.ready node_modules/.ready ## Synthesize the CloudFormation templates of ENV, or of PIPELINE=<name>, into cdk.out/
	@$(CDK) synth --quiet -c $(if $(PIPELINE),pipeline=$(PIPELINE),env=$(ENV))

schema: .venv/.ready ## Write the JSON Schemas of environment and pipeline files, and their reference pages
	@$(PY) -m settings schema
	@$(PY) -m settings reference

golden: setup ## Write what the shipped environments come to (tests/golden/), for review in git
	@$(PY) -m tests.golden

lint: setup ## ruff, mypy --strict, shellcheck, shfmt
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/shellcheck -x $(SHELL_SCRIPTS)
	.venv/bin/shfmt -d -i 2 -ci $(SHELL_SCRIPTS)
	$(PY) scripts/lint_nccl.py

format: setup ## Format Python and shell
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/shfmt -w -i 2 -ci $(SHELL_SCRIPTS)

# One kind after the other: on two cores each wants both.
test: setup lint ## Everything that CI runs: lint, tests, life cycles and the local default end to end
	@scripts/install-lab-packages.sh
	$(PYTEST) -n 2 --dist loadgroup -m '$(QUICK)'
	$(PYTEST) -m lab
	$(PYTEST) -n 2 --dist loadgroup -m lifecycle
	$(PYTEST) -n 2 --dist loadfile -m 'e2e and not lifecycle'

test-fast: setup ## The tests that need neither the emulated AWS nor the laboratory
	$(PYTEST) -n 2 --dist loadgroup -m '$(QUICK)'

mutants: setup ## Mutation testing: which changed expression does no quick test notice (ONLY=decide,response,settings,verdict)
	@$(UV) run --quiet --frozen --no-sync --with mutmut==3.8.1 python scripts/mutants.py $(ONLY)

clean: ## Remove what setup and synth made (not a running local world: `make down` does that)
	rm -rf .venv .tools node_modules cdk.out parallelcluster/.venv local/.venv local/node_modules

# --- setup ---------------------------------------------------------------------------------------------------------
$(UV):
	@scripts/require-tools.sh $(PYTHON)
	@echo "setup: uv $(UV_VERSION)"
	@$(PYTHON) -m venv .tools/uv
	@.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# One recipe for the three Python environments: each has its own pyproject.toml and uv.lock.
%.venv/.ready: %pyproject.toml %uv.lock $(UV)
	@echo "setup: $@"
	@$(CURDIR)/$(UV) sync --quiet --frozen --compile-bytecode --project $(or $*,.) --python "$$(command -v $(PYTHON))"
	@touch $@

.venv/.ready: pyproject.toml uv.lock $(UV)
	@echo "setup: $@"
	@$(UV) sync --quiet --frozen --compile-bytecode --python "$$(command -v $(PYTHON))"
	@touch $@

%node_modules/.ready: %package.json %package-lock.json
	@echo "setup: $@"
	@npm ci --silent --prefix $(or $*,.)
	@touch $@

node_modules/.ready: package.json package-lock.json
	@echo "setup: $@"
	@npm ci --silent
	@touch $@
