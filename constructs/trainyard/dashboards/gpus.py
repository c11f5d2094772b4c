"""Dashboards of GPUs, of one job, and of the network between GPUs."""

from __future__ import annotations

from trainyard.dashboards.model import Dashboard, Panel, Variable, figure, lines, stacked, table

THROTTLES = {
    "power cap (SW)": 4,
    "slowdown (HW)": 8,
    "temperature (SW)": 32,
    "temperature (HW)": 64,
    "power brake (HW)": 128,
}
"""Bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS. Source: NVIDIA/DCGM, dcgmlib/dcgm_fields.h, DCGM_CLOCKS_EVENT_REASON_*."""

_MEMORY_ERRORS = {
    "Single-bit": "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "Double-bit": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "Remap failed": "DCGM_FI_DEV_ROW_REMAP_FAILURE",
}
_EFA_ERRORS = {
    "rx_drops": ("Dropped packets", "Received packets that the device dropped."),
    "retrans_timeout_events": ("Timeouts", "Packets that were sent again because no answer came in time."),
    "unresponsive_remote_events": ("Unresponsive remote nodes", "The other node did not answer at all."),
    "impaired_remote_conn_events": ("Impaired connections", "Connections that the device rates as bad."),
}
_NVLINK_UNIT = 1_024_000
"""Bytes per second: DCGM publishes a rate in KiB/s / 1000, although dcgm-exporter calls it a counter
(https://github.com/NVIDIA/dcgm-exporter/pull/658, on ReadAndCacheNvLinkBandwidth of DcgmCacheManager.cpp)."""
_CHECK_AGE = "time() - max by (node, check) (trainyard_node_check_time_seconds)"
_TENSOR = 'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{hpc_job="$job"}'
_USED = '{series}_USED{{hpc_job="$job"}} / ({series}_USED{{hpc_job="$job"}} + {series}_FREE{{hpc_job="$job"}})'
_RANK = 'training_rank_step{job="$job"}'


def _rate(series: str, more: str = "", by: str = "node") -> str:
    return f"sum by ({by}) (rate({series}[$__rate_interval]){more})"


def _xids(span: str) -> str:
    """Errors of a time. A series begins with the first error of its GPU, which is not an increase."""
    series = "trainyard_xid_errors_total"
    return f"({series} unless {series} offset {span}) or increase({series}[{span}])"


def _of_job(series: str) -> str:
    return _rate(series, ' and on (node) slurm_job_node{job="$job"}')


def _efa_errors(name: str) -> Panel:
    title, description = _EFA_ERRORS[name]
    return lines(title, "cps", description, {"{{node}}": f"{_rate(f'trainyard_efa_{name}_total')} > 0"})


# fmt: off
GPU_HEALTH = Dashboard("gpu-health", "GPU health", "Errors, temperature, power and clocks of all GPUs.", {
    "Now": (
        figure("GPUs missing", "short", "GPUs of the instance type that the driver does not show.",
               "sum(trainyard_gpus_expected - trainyard_gpus_found) or vector(0)", (1, 1)),
        figure("Xid errors in 1 h", "short", "From the kernel's log.",
               f"sum({_xids('1h')}) or vector(0)", (1, 1)),
        figure("Double-bit ECC errors", "short", "GPUs that have some since the driver's start.",
               "count(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0) or vector(0)", (1, 1)),
        figure("Failed row remaps", "short", "GPUs whose memory could not be repaired.",
               "count(DCGM_FI_DEV_ROW_REMAP_FAILURE > 0) or vector(0)", (1, 1)),
        figure("Hottest GPU", "celsius", "Temperature of the chip.", "max(DCGM_FI_DEV_GPU_TEMP)", (80, 87)),
        figure("Node checks failed", "short", "Checks of nodes whose last result was bad.",
               "count(trainyard_node_check_ok == 0) or vector(0)", (1, 4)),
    ),
    "Clocks, temperature, power": (
        stacked("GPUs with reduced clocks", "short", "By reason. A power cap by software is normal at full load.",
                {name: f"count(floor(DCGM_FI_DEV_CLOCKS_EVENT_REASONS / {bit}) % 2 == 1) or vector(0)"
                 for name, bit in THROTTLES.items()}),
        lines("Temperature", "celsius", "The hottest GPU of each of the ten hottest nodes.",
              {"{{node}}": "topk(10, max by (node) (DCGM_FI_DEV_GPU_TEMP))"}),
        lines("Lowest clock", "hertz", "The ten slowest nodes, of GPUs that are used more than half.",
              {"{{node}}": "bottomk(10, min by (node) "
                           "(DCGM_FI_DEV_SM_CLOCK * 1e6 and on (node, gpu) DCGM_FI_DEV_GPU_UTIL > 50))"}),
        lines("Power", "watt", "Sum of each queue.", {"{{queue}}": "sum by (queue) (DCGM_FI_DEV_POWER_USAGE)"}),
        lines("Memory in use", "percentunit", "Mean of each queue.",
              {"{{queue}}": "sum by (queue) (DCGM_FI_DEV_FB_USED) "
                            "/ sum by (queue) (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"}),
        lines("Activity", "percentunit", "Share of the time in which the GPU, or its tensor cores, worked.",
              {"{{queue}} tensor cores": "avg by (queue) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)",
               "{{queue}} any work": "avg by (queue) (DCGM_FI_PROF_GR_ENGINE_ACTIVE)"}),
    ),
    "Errors": (
        table("Xid errors in 24 h", "The runbook XidError explains the numbers.", ("node", "gpu", "xid"),
              {"Errors": f"sum by (node, gpu, xid) ({_xids('24h')}) > 0"}),
        table("Memory errors", "GPUs with errors since the driver's start.", ("node", "gpu"),
              {title: f"max by (node, gpu) ({series}) > 0" for title, series in _MEMORY_ERRORS.items()}),
        table("Failed node checks", "Checks of nodes whose last result was bad.", ("node", "check"),
              {"Age": f"{_CHECK_AGE} and on (node, check) trainyard_node_check_ok == 0"}, {"Age": "s"}),
        lines("NVLink CRC errors", "cps", "The links corrected them by sending again.",
              {"{{node}}": f"{_rate('DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL')} > 0"}),
    ),
})

JOB = Dashboard("job", "Job", "One job over all its nodes: progress, utilisation, stragglers.", {
    "Now": (
        figure("Step", "short", "Last step that the trainer reported.", 'max(training_step{job="$job"})'),
        figure("Since the last step", "s", "Grows when the job hangs.",
               'time() - max(training_last_step_time_seconds{job="$job"})', (300, 900)),
        figure("Tokens/s", "short", "Of the whole job.", 'max(training_tokens_per_second{job="$job"})'),
        figure("MFU", "percentunit", "Model FLOP/s divided by the peak of the GPUs.",
               'max(training_mfu_ratio{job="$job"})'),
        figure("GPUs", "short", "GPUs that the job holds.", 'max(slurm_job_gpus{job="$job"})'),
        figure("Nodes", "short", "Nodes that the job holds.", 'count(slurm_job_node{job="$job"})'),
    ),
    "Training": (
        lines("Loss", "short", "As the trainer reports it.", {"loss": 'max(training_loss{job="$job"})'}),
        lines("Tokens/s over time", "short", "Of the whole job.",
              {"tokens/s": 'max(training_tokens_per_second{job="$job"})'}),
        lines("Steps/s", "cps", "Of the whole job.", {"steps/s": 'max(training_steps_per_second{job="$job"})'}),
    ),
    "Nodes of the job": (
        lines("GPU use by node", "percentunit", "A node far below the others slows the whole job.",
              {"{{node}}": 'avg by (node) (DCGM_FI_DEV_GPU_UTIL{hpc_job="$job"}) / 100'}),
        lines("Power by node", "watt", "GPUs that wait for others show full use and low power.",
              {"{{node}}": 'avg by (node) (DCGM_FI_DEV_POWER_USAGE{hpc_job="$job"})'}),
        lines("Tensor cores by node", "percentunit", "Share of the time in which the tensor cores worked.",
              {"{{node}}": f"avg by (node) ({_TENSOR})"}),
        lines("Memory in use by node", "percentunit", "The fullest GPU of each node.",
              {"{{node}}": f"max by (node) ({_USED.format(series='DCGM_FI_DEV_FB')})"}),
        lines("EFA sent by node", "Bps", "All traffic of the nodes.",
              {"{{node}}": _of_job("trainyard_efa_tx_bytes_total")}),
        lines("Lustre read by node", "Bps", "All traffic of the nodes.",
              {"{{node}}": _of_job("trainyard_lustre_read_bytes_total")}),
    ),
    "Stragglers": (
        lines("Steps behind the fastest rank", "short", "The eight slowest ranks, where the trainer reports ranks.",
              {"rank {{rank}} {{node}}": f"topk(8, scalar(max({_RANK})) - {_RANK})"}),
        table("Slowest ranks", "Where the trainer reports ranks.", ("rank", "node"),
              {"Step": f"bottomk(10, max by (rank, node) ({_RANK}))"}),
        table("Slowest nodes", "Tensor-core activity below the mean of the job.", ("node",),
              {"Below the mean": f"topk(10, scalar(avg({_TENSOR})) - avg by (node) ({_TENSOR}))"},
              {"Below the mean": "percentunit"}),
    ),
}, (Variable("job", "Job", "prometheus", "label_values(slurm_job_info, job)"),))

EFA_NCCL = Dashboard("efa-nccl", "EFA and NCCL", "Traffic and errors between GPUs. Errors of one node point to it.", {
    "Traffic": (
        lines("EFA sent", "Bps", "The ten busiest nodes.",
              {"{{node}}": f"topk(10, {_rate('trainyard_efa_tx_bytes_total')})"}),
        lines("EFA received", "Bps", "The ten busiest nodes.",
              {"{{node}}": f"topk(10, {_rate('trainyard_efa_rx_bytes_total')})"}),
        lines("RDMA by queue", "Bps", "NCCL reads or writes, by instance type.",
              {f"{{{{queue}}}} {way}": _rate(f"trainyard_efa_rdma_{way}_bytes_total", by="queue")
               for way in ("read", "write")}),
        lines("NVLink", "Bps", "The ten busiest nodes, all links in both directions.",
              {"{{node}}": f"topk(10, sum by (node) (DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL)) * {_NVLINK_UNIT}"}),
    ),
    "Errors": (
        *map(_efa_errors, _EFA_ERRORS),
        lines("Sent again", "Bps", "The ten nodes that repeat most.",
              {"{{node}}": f"topk(10, {_rate('trainyard_efa_retrans_bytes_total')}) > 0"}),
        table("Errors in 24 h", "Of each EFA device.", ("node", "device"),
              {title: f"sum by (node, device) (increase(trainyard_efa_{name}_total[24h])) > 0"
               for name, (title, _) in _EFA_ERRORS.items()}),
    ),
})
# fmt: on
