#!/usr/bin/env bash
# Persistence mode: without it the driver loads again for each program, which takes seconds and resets its settings. NVIDIA's daemon is
# preferred because it also survives a restart.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

gpus::main() {
  if ! command -v nvidia-smi >/dev/null || ! compgen -G "${TRAINYARD_ROOT}/dev/nvidia[0-9]*" >/dev/null; then
    # The health step decides whether the node should have some.
    log::info "no GPU on this node"
    return 0
  fi
  base::need 1 systemctl timeout
  if systemctl is-active --quiet nvidia-persistenced 2>/dev/null; then
    log::info "nvidia-persistenced runs"
  elif systemctl enable --now nvidia-persistenced >/dev/null 2>&1; then
    log::info "started nvidia-persistenced"
  else
    # nvidia-smi hangs when a GPU does; the health step then reports it.
    timeout --kill-after=5 60 nvidia-smi -pm 1 >/dev/null 2>&1 || log::warn "nvidia-smi -pm 1 failed: the GPUs are slower to start"
  fi
}

gpus::main
