"""Dashboards of the cluster as a whole: overview, Slurm and shares."""

from __future__ import annotations

from trainyard.dashboards.model import Dashboard, figure, lines, stacked, table

BAD = 'slurm_node_state{state=~"down|drained|draining|fail|error|not_responding|unknown"}'
"""Nodes to which Slurm sends no jobs although their instances are paid for."""
ABSENT = 'slurm_node_state{state=~"powered_down|powering_down|powering_up|future"}'
"""Nodes without an instance that is ready."""
FREE_GPUS = f"(slurm_node_gpus - slurm_node_gpus_allocated) unless on (node) {ABSENT}"
IN_MEMORY = 'node_filesystem_size_bytes{fstype=~"tmpfs|ramfs|squashfs|overlay"}'
DISK_USE = f"(1 - node_filesystem_avail_bytes / node_filesystem_size_bytes unless {IN_MEMORY})"

_JOB_USE = 'label_replace(avg by (hpc_job) (DCGM_FI_DEV_GPU_UTIL{hpc_job!=""}) / 100, "job", "$1", "hpc_job", "(.+)")'
_LABELS = "name, user, account, queue"
_RUNS_FOR = (
    f"(time() - max by (job) (slurm_job_start_time_seconds)) * on (job) group_left ({_LABELS}) "
    f"max by (job, {_LABELS}) (slurm_job_info)"
)
_HELD = "max by (job) (slurm_job_gpus) * on (job) group_left (account) max by (job, account) (slurm_job_info)"
_END = "max by (job) (slurm_job_start_time_seconds) + max by (job) (slurm_job_time_limit_seconds)"


def _sum(series: str, by: str = "") -> str:
    return f"sum{f' by ({by}) ' if by else ''}(rate({series}[$__rate_interval]))"


# fmt: off
RUNNING_JOBS = table(
    "Running jobs", "GPU use is the mean of the job's GPUs. Tokens/s and MFU come from trainers that report them.",
    ("job", "name", "user", "account", "queue"),
    {"Runs for": _RUNS_FOR, "GPUs": "sum by (job) (slurm_job_gpus)", "GPU use": f"avg by (job) ({_JOB_USE})",
     "Tokens/s": "max by (job) (training_tokens_per_second)", "MFU": "max by (job) (training_mfu_ratio)"},
    {"Runs for": "s", "GPU use": "percentunit", "MFU": "percentunit"})
NODES_WITH_REASON = table(
    "Nodes that need attention", "Nodes that are down, drained or failing, with Slurm's reason.",
    ("node", "queue", "reason"), {"Nodes": "max by (node, queue, reason) (slurm_node_reason)"})
NODES_BY_STATE = stacked(
    "Nodes by state", "short", "Powered-down nodes are left out.",
    {"{{state}}": 'count by (state) (slurm_node_state{state!~"powered_down|future"} == 1)'})
JOBS_BY_STATE = stacked(
    "Jobs by state", "short", "Jobs that Slurm knows.", {"{{state}}": "sum by (state) (slurm_jobs)"})

OVERVIEW = Dashboard("overview", "Overview", "The whole cluster. `trainyard status ENV --web` shows the same panels.", {
    "Now": (
        figure("Urgent alerts", "short", "Firing alerts with severity page.",
               'sum(ALERTS{alertstate="firing",severity="page"}) or vector(0)', (1, 1)),
        figure("Warnings", "short", "Firing alerts with severity warning.",
               'sum(ALERTS{alertstate="firing",severity="warning"}) or vector(0)', (1, 100)),
        figure("Nodes at work", "short", "Nodes that run and take jobs.",
               f"count(slurm_node_state == 1 unless on (node) {BAD} unless on (node) {ABSENT}) or vector(0)"),
        figure("Nodes out of service", "short", "Nodes that are down, drained or failing.",
               f"count({BAD} == 1) or vector(0)", (1, 4)),
        figure("GPUs allocated", "short", "GPUs that jobs hold.", "sum(slurm_node_gpus_allocated)"),
        figure("GPU use", "percentunit", "Mean utilisation of the GPUs that jobs hold.",
               'avg(DCGM_FI_DEV_GPU_UTIL{hpc_job!=""}) / 100'),
        figure("Jobs running", "short", "Jobs in state running.", 'sum(slurm_jobs{state="running"}) or vector(0)'),
        figure("Jobs waiting", "short", "Jobs in state pending.", 'sum(slurm_jobs{state="pending"}) or vector(0)'),
        figure("Tokens/s", "short", "Sum of all trainers that report it.", "sum(training_tokens_per_second)"),
        figure("Fullest file system", "percentunit", "The largest share in use, of all mounts on all nodes.",
               f"max({DISK_USE})", (0.8, 0.9)),
        figure("Exporters down", "short", "Exporters of running nodes that do not answer.",
               "count(up == 0) or vector(0)", (1, 10)),
        figure("GPU power", "watt", "Of all GPUs, without the rest of the nodes.", "sum(DCGM_FI_DEV_POWER_USAGE)"),
    ),
    "GPUs and jobs": (
        lines("GPU use by queue", "percentunit", "Mean utilisation of all GPUs of running nodes.",
              {"{{queue}}": "avg by (queue) (DCGM_FI_DEV_GPU_UTIL) / 100"}),
        stacked("GPUs", "short", "Held by jobs; idle; on nodes that are down, drained or failing.",
                {"allocated": "sum(slurm_node_gpus_allocated)",
                 "idle": f"sum({FREE_GPUS} unless on (node) {BAD}) or vector(0)",
                 "out of service": f"sum({FREE_GPUS} and on (node) {BAD}) or vector(0)"}),
        JOBS_BY_STATE,
        lines("Tokens/s by job", "short", "Of trainers that report it.",
              {"job {{job}}": "max by (job) (training_tokens_per_second)"}),
        lines("MFU by job", "percentunit", "Model FLOP/s divided by the peak of the job's GPUs.",
              {"job {{job}}": "max by (job) (training_mfu_ratio)"}),
        NODES_BY_STATE,
    ),
    "Network and storage": (
        lines("EFA traffic", "Bps", "Sum of all nodes.",
              {"sent": _sum("trainyard_efa_tx_bytes_total"), "received": _sum("trainyard_efa_rx_bytes_total"),
               "RDMA read": _sum("trainyard_efa_rdma_read_bytes_total"),
               "RDMA written": _sum("trainyard_efa_rdma_write_bytes_total")}),
        lines("Lustre traffic", "Bps", "Sum of all nodes, as the clients count it.",
              {"{{mount}} read": _sum("trainyard_lustre_read_bytes_total", "mount"),
               "{{mount}} written": _sum("trainyard_lustre_write_bytes_total", "mount")}),
        lines("File systems in use", "percentunit", "The fullest of all nodes, for each mount.",
              {"{{mountpoint}}": f"max by (mountpoint) ({DISK_USE})"}),
    ),
    "Details": (RUNNING_JOBS, NODES_WITH_REASON),
})

SLURM = Dashboard("slurm-shares", "Slurm and shares", "The queue, who waits, who holds GPUs, and fair share.", {
    "Queue": (
        JOBS_BY_STATE,
        NODES_BY_STATE,
        lines("Longest wait by queue", "s", "Of pending jobs.",
              {"{{queue}}": "max by (queue) (slurm_job_wait_seconds)"}),
        lines("GPUs by account", "short", "GPUs that running jobs hold.",
              {"{{account}}": f"sum by (account) ({_HELD})"}),
        lines("Pending jobs by account", "short", "Jobs in state pending.",
              {"{{account}}": 'sum by (account) (slurm_jobs{state="pending"})'}),
        lines("Fair share by account", "short",
              "Slurm's factor: 1 for unused shares, towards 0 for over-used ones. It needs an accounting database.",
              {"{{account}}": 'max by (account) (slurm_fair_share)'}),
    ),
    "Details": (
        RUNNING_JOBS,
        NODES_WITH_REASON,
        table("Time left of running jobs", "Jobs without a time limit are left out.", ("job",),
              {"Time left": f"{_END} - time()"}, {"Time left": "s"}),
        table("Waiting jobs", "The 20 that wait longest.", ("job", "user", "account", "queue"),
              {"Waits for": "topk(20, max by (job, user, account, queue) (slurm_job_wait_seconds))"},
              {"Waits for": "s"}),
    ),
    "Exporter": (
        figure("Slurm answers", "short", "1: the exporter's last try reached slurmctld.", "min(slurm_up)"),
        figure("Jobs without series", "short", "Of more than 1000 running or pending ones: the smallest, the newest.",
               "max(slurm_exporter_jobs_omitted)", (1, 1000)),
        lines("Time of a collection", "s", "Of the exporter on the head node.",
              {"collection": "max(slurm_exporter_duration_seconds)"}),
    ),
})
# fmt: on
