#!/usr/bin/env bash
# install-test-torch.sh [FOLDER]: PyTorch for the tests that train on CPUs with the laboratory's Python 3.11, into FOLDER (default:
# .trainyard/torch-3.11). Quick if it is installed.
#
# PyPI has the build with CUDA, several gigabytes; the CPU build is smaller:
# PIP_INDEX_URL=https://download.pytorch.org/whl/cpu scripts/install-test-torch.sh
#
# Exit codes: 0 installed; 1 the installation failed; 69 no reachable package index has it.
set -euo pipefail

readonly TORCH_VERSION=2.13.0 NUMPY_VERSION=2.3.5 PYTHON_VERSION=3.11
FOLDER="${1:-$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)/.trainyard/torch-${PYTHON_VERSION}}"
PYTHON="${PYTHON:-python3}"

torch::main() {
  local -r stamp="${FOLDER}/.torch-${TORCH_VERSION}"
  local log work platform
  local -a platforms=()
  [[ ! -e "${stamp}" ]] || return 0
  mkdir -p "${FOLDER%/*}"
  exec 9>"${FOLDER}.lock"
  flock 9
  [[ ! -e "${stamp}" ]] || return 0
  work="$(mktemp -d "${FOLDER}.XXXXXX")"
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf '${work}'" EXIT
  for platform in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1 linux; do
    platforms+=("--platform=${platform}_$(uname -m)")
  done
  if ! log="$("${PYTHON}" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --target="${work}" \
    --implementation=cp --python-version="${PYTHON_VERSION}" "${platforms[@]}" "torch==${TORCH_VERSION}" "numpy==${NUMPY_VERSION}" 2>&1)"; then
    printf 'install-test-torch: %s\n' "${log##*$'\n'}" >&2
    [[ "${log}" != *"No matching distribution"* && "${log}" != *"Could not find"* ]] || exit 69
    exit 1
  fi
  : >"${work}/${stamp##*/}"
  chmod 0755 "${work}"
  rm -rf "${FOLDER}"
  mv -T "${work}" "${FOLDER}"
}

torch::main
