#!/usr/bin/env bash
# GPUs stay initialised between jobs: without persistence mode the driver is loaded anew for each program, for seconds, and forgets settings.
# NVIDIA's daemon does it where the image has it, since it does so after a restart too.
# shellcheck source=cluster_assets/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

gpus::main() {
  if ! command -v nvidia-smi >/dev/null || ! compgen -G "${TRAINYARD_ROOT}/dev/nvidia[0-9]*" >/dev/null; then
    # Whether it should have some is for the health step to say.
    log::info "no GPU on this node"
    return 0
  fi
  common::need systemctl timeout
  if systemctl is-active --quiet nvidia-persistenced 2>/dev/null; then
    log::info "nvidia-persistenced runs"
  elif systemctl enable --now nvidia-persistenced >/dev/null 2>&1; then
    log::info "started nvidia-persistenced"
  else
    # It hangs where a GPU does; the health step says what is wrong then.
    timeout 60 nvidia-smi -pm 1 >/dev/null || log::warn "nvidia-smi -pm 1 failed: the GPUs are slower to start"
  fi
}

gpus::main
