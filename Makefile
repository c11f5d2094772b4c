# Trainyard. `make help` lists the targets. Most call the command `trainyard` (docs/cli.md).
ENV ?= local
UV_VERSION := 0.13.8
PYTHON ?= python3

# What a user gives reaches recipes as environment variables only, taken literally: make expands nothing in it, and
# no shell reads it as code.
GIVEN := ENV ON YES PORT AGAINST FORMAT OUTPUT DELETE_DATA FORCE HELLO PIPELINE RESUME APPROVE SKIP ONLY
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export $(GIVEN)

UV := .tools/uv/bin/uv
PY := .venv/bin/python
TRAINYARD := .venv/bin/trainyard
CDK := node_modules/.bin/cdk
export UV_PYTHON_DOWNLOADS := never
export PYTHONDONTWRITEBYTECODE :=
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

# Options from the variables that are set.
AT_PORT := $${PORT:+--port "$$PORT"}
ON_AWS := $${ON:+--on "$$ON"} $$([ "$$YES" != yes ] || echo --yes)
REPORT := $${FORMAT:+--format "$$FORMAT"} $${OUTPUT:+--output "$$OUTPUT"}
ACCOUNT := $${ON:+--on "$$ON"} $(AT_PORT) $(REPORT)
COMPILE := --compile-bytecode
STACKS := import stacks.deployment, stacks.pipeline
PYTEST := .venv/bin/pytest
QUICK := not e2e and not lifecycle and not lab
# The others are in these folders: each process reads half as many files.
LONG_FOLDERS = $(sort $(dir $(shell grep -rlE --include='*.py' 'mark\.(e2e|lab)\b|lab_machine' tests/*/)))
LINT = .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/deptry --no-ansi . && \
  .venv/bin/shellcheck -x $(SHELL_SCRIPTS) && .venv/bin/shfmt -d -i 2 -ci $(SHELL_SCRIPTS) && $(PY) scripts/lint_nccl.py
SHELL_SCRIPTS = $(shell git ls-files '*.sh' '*.sbatch' .ci/run)

.DEFAULT_GOAL := help
.PHONY: help docs tools setup setup-steps up down diff preflight validate drift promote status lab lab-down synth schema golden check lint format test test-long lint-and-test-fast test-fast mutants clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  ENV=<name or path> picks the environment (now: $$ENV). PORT=<number> moves the emulated AWS's ports."
	@echo "  make exits with 2 where a command fails; .venv/bin/trainyard has the exit statuses of docs/cli.md."

tools: # the tools of the machine itself, looked for each time: a shell may have lost one since the set-up
	@scripts/require-tools.sh $(PYTHON)

setup: tools .venv/.ready parallelcluster/.venv/.ready local/.venv/.ready node_modules/.ready local/node_modules/.ready ## Install everything, pinned, inside this folder

# What the steps of a pipeline run with: no emulated AWS. Each is one command, and imports a tenth of what is installed.
setup-steps: COMPILE :=
setup-steps: tools .venv/.ready parallelcluster/.venv/.ready node_modules/.ready

up: setup ## Deploy ENV to an emulated AWS on this machine, or to AWS (ON=aws, YES=yes: without a question)
	@$(TRAINYARD) up "$$ENV" $(ON_AWS) $(AT_PORT) $$([ "$$HELLO" != no ] || echo --no-hello)

down: setup ## Remove ENV from the emulated AWS and stop that, or from AWS (ON=aws; DELETE_DATA=yes: also where buckets hold data)
	@$(TRAINYARD) down "$$ENV" $(ON_AWS) $$([ "$$DELETE_DATA" != yes ] || echo --delete-data) $$([ "$$FORCE" != yes ] || echo --force)

# A verdict is not a failure: statuses 1 to 3 succeed here.
diff: setup ## What a change does: ENV against the emulated AWS, AGAINST=<git revision>, or ON=aws (FORMAT=markdown|json|html)
	@$(TRAINYARD) diff "$$ENV" $${AGAINST:+--against "$$AGAINST"} $(ACCOUNT) || [ $$? -lt 4 ]

preflight: setup ## Check whether the account can hold ENV: capacity, quotas, addresses (ON=aws)
	@$(TRAINYARD) preflight "$$ENV" $(ACCOUNT)

validate: setup ## Run scans, hello-gpu, NCCL and storage checks on the cluster of ENV, through SSM (ON=aws)
	@$(TRAINYARD) validate "$$ENV" $(ACCOUNT)

drift: setup ## Compare the account with what was deployed of ENV (ON=aws)
	@$(TRAINYARD) drift "$$ENV" $(ACCOUNT)

# Status 3 is a promotion that waits for an approval: not a failure.
promote: setup ## Take this checkout through a pipeline in an emulated AWS (PIPELINE= RESUME=yes APPROVE= SKIP=)
	@$(TRAINYARD) promote "$${PIPELINE:-promotion}" $$([ "$$RESUME" != yes ] || echo --resume) \
	  $${APPROVE:+--approve "$$APPROVE"} $${SKIP:+--skip "$$SKIP"} $(AT_PORT) || [ $$? -eq 3 ]

status: setup ## Show what is deployed in the emulated AWS, or in AWS (ON=aws)
	@$(TRAINYARD) status "$$ENV" $${ON:+--on "$$ON"}

lab: setup ## Slurm on this machine with the bootstrap, jobs and metrics of ENV, and a shell on its head node (root, Debian)
	@scripts/install-lab-packages.sh
	@$(TRAINYARD) lab up "$$ENV" --powered-down --metrics
	@$(TRAINYARD) lab shell

lab-down: setup ## Stop the laboratory
	@$(TRAINYARD) lab down

check: tools .venv/.ready ## Check the environment file ENV, or the pipeline file PIPELINE=<name>, without synthesizing it
	@$(TRAINYARD) check $${PIPELINE:+--pipeline} "$${PIPELINE:-$$ENV}"

synth: tools .venv/.ready node_modules/.ready ## Synthesize the CloudFormation templates of ENV, or of PIPELINE=<name>, into cdk.out/
	@if [ -n "$$PIPELINE" ]; then given="pipeline=$$PIPELINE"; else given="env=$$ENV"; fi; $(CDK) synth --quiet -c "$$given"

schema: tools .venv/.ready ## Write the JSON Schemas of environment and pipeline files, and the reference pages in docs/
	@$(TRAINYARD) schema --write

golden: setup ## Write what the shipped environments come to (tests/golden/), for review in git
	@$(PY) -m tests.golden

lint: setup ## ruff, mypy --strict, declared dependencies, shellcheck, shfmt
	@$(LINT)

docs: tools $(UV) ## Build the documentation site into site/
	@$(UV) run --quiet --frozen --isolated --only-group docs zensical build --strict --clean

format: setup ## Format Python and shell
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/shfmt -w -i 2 -ci $(SHELL_SCRIPTS)

# Long tests leave CPU time unused: lint and the quick tests run at the same time, and print when they have ended. Three
# jobs: with two, lint and the quick tests would take both, and the long tests would begin after lint.
test: setup ## Everything that CI runs: lint, tests, life cycles and the local default end to end
	@scripts/install-lab-packages.sh --tests
	@$(MAKE) --no-print-directory --jobs=3 test-long lint-and-test-fast || \
	  { echo 'make test failed. In the output above, a line with *** follows each part that failed.' >&2; exit 1; }

# Without MAKEFLAGS: a test that runs `make` must not use the job server of this one.
test-long: setup
	env -u MAKEFLAGS $(PYTEST) -n 5 --dist loadgroup --no-loadscope-reorder --durations 25 --reruns=1 -rfER \
	  --rerun-show-tracebacks -m 'lab or e2e' $(LONG_FOLDERS)

lint-and-test-fast:
	@printed=$$($(MAKE) --no-print-directory --output-sync=target lint test-fast 2>&1); status=$$?; \
	  printf '%s\n' "$$printed"; exit $$status

test-fast: setup ## The tests that need neither the emulated AWS nor the laboratory
	env -u MAKEFLAGS $(PYTEST) -n 2 --dist loadgroup -m '$(QUICK)'

mutants: setup ## Mutation testing: which changed expression does no quick test notice (ONLY=decide,response,settings,verdict)
	@$(UV) run --quiet --frozen --no-sync --with mutmut==3.8.1 python scripts/mutants.py $${ONLY:+"$$ONLY"}

clean: ## Remove what setup and synth made (not a running emulated AWS: `make down` stops that)
	rm -rf .venv .tools node_modules cdk.out parallelcluster/.venv local/.venv local/node_modules

# --- setup ---------------------------------------------------------------------------------------------------------
$(UV):
	@scripts/require-tools.sh $(PYTHON)
	@echo "setup: uv $(UV_VERSION)"
	@$(PYTHON) -m venv .tools/uv
	@.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# One recipe for the Python environments: each has its own pyproject.toml and uv.lock.
%.venv/.ready: %pyproject.toml %uv.lock $(UV)
	@echo "setup: $@"
	@$(CURDIR)/$(UV) sync --quiet --frozen $(COMPILE) --project $(or $*,.) --python "$$(command -v $(PYTHON))"
	@touch $@

# uv would compile all of aws_cdk, two thirds of what is installed; importing our stacks compiles the tenth that they use,
# and once more for -O, which cdk.json asks for. cfn-lint and pytest: several processes of the tests start at once.
.venv/.ready: pyproject.toml uv.lock $(UV)
	@echo "setup: $@"
	@$(UV) sync --quiet --frozen --python "$$(command -v $(PYTHON))"
	@[ -z "$(COMPILE)" ] || { $(PY) -O -c '$(STACKS)' & $(PY) -c '$(STACKS), cfnlint, pytest'; status=$$?; wait $$! && exit $$status; }
	@touch $@

%node_modules/.ready: %package.json %package-lock.json
	@echo "setup: $@"
	@npm ci --silent --prefix $(or $*,.)
	@touch $@

node_modules/.ready: package.json package-lock.json
	@echo "setup: $@"
	@npm ci --silent
	@touch $@
