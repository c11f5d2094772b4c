#!/usr/bin/env bash
# install-test-torch.sh [FOLDER]: PyTorch, numpy and tokenizers for the tests with the laboratory's Python 3.11, into FOLDER (default:
# .trainyard/torch-3.11). Quick if it is installed.
#
# PyPI has the build with CUDA, several gigabytes; the CPU build is smaller:
# PIP_INDEX_URL=https://download.pytorch.org/whl/cpu scripts/install-test-torch.sh
#
# Exit codes: 0 installed; 1 the installation failed; 69 no reachable package index has it.
set -euo pipefail

readonly TORCH_VERSION=2.13.0 NUMPY_VERSION=2.3.5 TOKENIZERS_VERSION=0.23.3 PYTHON_VERSION=3.11
FOLDER="${1:-$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)/.trainyard/torch-${PYTHON_VERSION}}"
PYTHON="${PYTHON:-python3}"

# install FOLDER PACKAGE...: with pip, for the laboratory's Python.
torch::install() {
  local log platform
  local -a platforms=()
  for platform in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1 linux; do
    platforms+=("--platform=${platform}_$(uname -m)")
  done
  if ! log="$("${PYTHON}" -m pip install --quiet --disable-pip-version-check --no-compile --only-binary=:all: --target="$1" \
    --implementation=cp --python-version="${PYTHON_VERSION}" "${platforms[@]}" "${@:2}" 2>&1)"; then
    printf 'install-test-torch: %s\n' "${log##*$'\n'}" >&2
    [[ "${log}" != *"No matching distribution"* && "${log}" != *"Could not find"* ]] || exit 69
    exit 1
  fi
}

torch::main() {
  local -r stamp="${FOLDER}/.torch-${TORCH_VERSION}-compiled" tokenizers="${FOLDER}/.tokenizers-${TOKENIZERS_VERSION}"
  local work
  [[ ! -e "${stamp}" || ! -e "${tokenizers}" ]] || return 0
  mkdir -p "${FOLDER%/*}"
  exec 9>"${FOLDER}.lock"
  flock 9
  if [[ ! -e "${stamp}" ]]; then
    work="$(mktemp -d "${FOLDER}.XXXXXX")"
    # shellcheck disable=SC2064 # the value of now
    trap "rm -rf '${work}'" EXIT
    torch::install "${work}" "torch==${TORCH_VERSION}" "numpy==${NUMPY_VERSION}"
    # Compile what the trainer imports, a quarter of PyTorch. A Python of another version fails; the nodes could not use its files.
    PYTHONPATH="${work}" "${PYTHON}" -c 'import torch.distributed.run, torch.distributed.checkpoint.state_dict, torch.distributed.fsdp' 2>/dev/null || true
    # Each start of the trainer looks for garbage in what it imports: a tenth of its CPU time.
    printf 'import gc\n\ngc.set_threshold(100_000, 50, 50)\n' >"${work}/sitecustomize.py"
    : >"${work}/${stamp##*/}"
    chmod 0755 "${work}"
    rm -rf "${FOLDER}"
    mv -T "${work}" "${FOLDER}"
  fi
  [[ ! -e "${tokenizers}" ]] || return 0
  # Without huggingface-hub, which it needs only to download.
  torch::install "${FOLDER}" --no-deps "tokenizers==${TOKENIZERS_VERSION}"
  : >"${tokenizers}"
}

torch::main
