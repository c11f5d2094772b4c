#!/usr/bin/env bash
# install-lab-packages.sh [--tests]: installs what the Slurm laboratory and the tests of the cluster's scripts need on this host: Debian or
# Ubuntu, as root. Quick if nothing is missing. With --tests also a browser, which draws the report's charts, and Prometheus and Alertmanager,
# which test the alert rules; their services are disabled. The nodes' packages (Slurm, MariaDB, the registry) are installed in a root file
# system of their own.
#
# Exit codes: 0 installed; 1 the installation failed; 69 not possible here (neither Debian nor Ubuntu, no package archive); 77 needs root.
set -euo pipefail

# Command and its package.
readonly NEEDED=(
  "jq jq"
  "mmdebstrap mmdebstrap"
  "ip iproute2"
  "mount mount"
  "nsenter util-linux"
  "unshare util-linux"
  "setpriv util-linux"
)
# Packages of --tests that contain a service.
readonly MONITORING=(
  "promtool prometheus"
  "amtool prometheus-alertmanager"
)
readonly BROWSERS=(chromium-headless-shell google-chrome chromium)
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

lab::stop() {
  printf 'install-lab-packages: %s\n' "$2" >&2
  exit "$1"
}

# missing [--tests]: the packages that are missing.
lab::missing() {
  local pair
  local needed=("${NEEDED[@]}")
  [[ "${1:-}" != --tests ]] || needed+=("${MONITORING[@]}" "systemd-tmpfiles systemd")
  for pair in "${needed[@]}"; do
    command -v "${pair% *}" >/dev/null || printf '%s\n' "${pair#* }"
  done
  # mmdebstrap checks the archive's signature with it; Ubuntu lacks it by default.
  [[ -e "${KEYRING}" ]] || echo debian-archive-keyring
  [[ "${1:-}" != --tests || -n "$(command -v "${BROWSERS[@]}")" ]] || echo "${BROWSERS[0]}"
}

# disable_services PACKAGES: stops the services of the packages just installed; only their programs are needed.
lab::disable_services() {
  local pair
  for pair in "${MONITORING[@]}"; do
    [[ " $1 " == *" ${pair#* } "* && -d /run/systemd/system ]] || continue
    systemctl disable --now --quiet "${pair#* }.service" || true
  done
}

lab::main() {
  export PATH="${PATH}:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive
  local packages
  packages="$(lab::missing "$@" | sort -u | tr '\n' ' ')"
  [[ -n "${packages}" ]] || return 0
  command -v apt-get >/dev/null || lab::stop 69 "missing: ${packages}- and this is neither Debian nor Ubuntu. Install them yourself."
  [[ "$(id -u)" == 0 ]] || lab::stop 77 "missing: ${packages}- installing them needs root: sudo $0"
  # Another apt-get may hold the lock. Failures of archives are ignored here; the packages are checked next.
  local -r apt=(apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 -o Acquire::http::Timeout=20)
  "${apt[@]}" update --quiet=2 >/dev/null || true
  local name
  for name in ${packages}; do
    apt-cache show --no-all-versions "${name}" >/dev/null 2>&1 ||
      lab::stop 69 "no reachable package archive has '${name}'; missing: ${packages}"
  done
  # shellcheck disable=SC2086 # a list of words
  "${apt[@]}" install --yes --quiet=2 --no-install-recommends ${packages} >/dev/null ||
    lab::stop 1 "apt-get could not install: ${packages}"
  lab::disable_services "${packages}"
  packages="$(lab::missing "$@" | tr '\n' ' ')"
  [[ -z "${packages}" ]] || lab::stop 1 "still missing after the installation: ${packages}"
}

lab::main "$@"
