"""Slurm's configuration for a plan, as close to ParallelCluster's as one host allows (README.md: differences)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from local.slurm.plan import Node, Plan
from trainyard.cluster_config.nodes import custom_slurm_settings
from trainyard.cluster_config.shares import share_settings

ETC = "/opt/slurm/etc"
SCRIPTS = f"{ETC}/scripts"
DATABASE = "slurm_acct_db"
CGROUP = (
    "CgroupPlugin=cgroup/v1\nConstrainDevices=yes\nConstrainCores=no\nConstrainRAMSpace=no\nConstrainSwapSpace=no\n"
)


def configuration(plan: Plan, controllers: Sequence[str], database_password: str) -> dict[str, str]:
    """The files of /opt/slurm/etc by name. `controllers` are the cgroup controllers that nodes can use."""
    return {
        "slurm.conf": _slurm(plan, bool(controllers)),
        "slurm_parallelcluster.conf": _nodes(plan),
        "gres.conf": _gres(plan),
        "cgroup.conf": CGROUP,
        "slurmdbd.conf": _slurmdbd(plan, database_password),
    }


def accounting_sql(database_password: str) -> str:
    """The SQL that the database server runs at its start."""
    return (
        f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
        f"CREATE USER IF NOT EXISTS 'slurm'@'%' IDENTIFIED BY '{database_password}';\n"
        f"GRANT ALL ON {DATABASE}.* TO 'slurm'@'%';\n"
    )


def _slurm(plan: Plan, confined: bool) -> str:
    parameters: dict[str, str | int] = {
        "ClusterName": plan.environment.cluster_name,
        "SlurmctldHost": f"{plan.head.name}({plan.head.address})",
        "SlurmUser": "slurm",
        "SlurmctldPort": "6820-6829",
        "SlurmdPort": 6818,
        "AuthType": "auth/munge",
        # Slurm holds a requeued job while the credentials of its first run are valid; 120 s by default.
        "AuthInfo": "cred_expire=15",
        "StateSaveLocation": "/var/spool/slurm.state",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "SlurmctldPidFile": "/run/slurmctld/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": "/var/log/slurmctld.log",
        "SlurmdLogFile": "/var/log/slurmd.log",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
        "MailProg": "/bin/true",
        "MpiDefault": "none",
        "ReturnToService": 1,
        "ProctrackType": "proctrack/cgroup" if confined else "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup,task/affinity" if confined else "task/affinity",
        # A node claims more cores than the host has, so tasks cannot be bound to them.
        "TaskPluginParam": "None",
        "SlurmdParameters": "config_overrides",
        "SlurmctldTimeout": 300,
        "SlurmdTimeout": plan.timeouts.slurmd_s,
        "InactiveLimit": 0,
        "MinJobAge": 300,
        "KillWait": plan.timeouts.kill_wait_s,
        "WaitTime": 0,
        "UnkillableStepTimeout": 180,
        "MessageTimeout": plan.timeouts.message_s,
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "nohold_on_prolog_fail,sched_interval=2,bf_interval=2",
        "EnforcePartLimits": "ALL",
        "ReconfigFlags": "KeepPartState",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory" if plan.environment.cluster.slurm.memory_scheduling else "CR_CPU",
        "GresTypes": "gpu",
        "BatchStartTimeout": 180,
        "Prolog": f"{SCRIPTS}/prolog.d/*",
        "Epilog": f"{SCRIPTS}/epilog.d/*",
        "HealthCheckProgram": f"{SCRIPTS}/health-check",
        "HealthCheckInterval": 30,
        "HealthCheckNodeState": "ANY",
        "JobRequeue": 1,
        "RequeueExit": "",
        "PropagateResourceLimitsExcept": "MEMLOCK",
        # No node is powered on or off; the parameters allow nodes of state CLOUD.
        "SuspendProgram": "/bin/true" if plan.powered_down else "",
        "ResumeProgram": "/bin/true" if plan.powered_down else "",
        "PrivateData": "cloud" if plan.powered_down else "",
        "SuspendTime": -1 if plan.powered_down else "",
        "ResumeTimeout": 60 if plan.powered_down else "",
        "JobCompType": "jobcomp/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": 30,
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": plan.head.name,
        "AccountingStorageTRES": "gres/gpu",
    }
    parameters |= share_settings(plan.environment)
    if plan.base == "bookworm":
        parameters.pop("PreemptParameters", None)  # Slurm 22.05 refuses it
    parameters |= plan.environment.cluster.slurm.settings
    parameters |= plan.slurm
    lines = [f"{name}={value}" for name, value in parameters.items() if value != ""]
    return "\n".join(["# Written by the laboratory.", *lines, f"include {ETC}/slurm_parallelcluster.conf", ""])


def _names(nodes: Sequence[Node]) -> str:
    """The host list of one compute resource, whose nodes are numbered without gaps."""
    stem, _, first = nodes[0].name.rpartition("-")
    last = nodes[-1].name.rpartition("-")[2]
    return nodes[0].name if first == last else f"{stem}-[{first}-{last}]"


def _groups(nodes: Sequence[Node]) -> list[list[Node]]:
    """Nodes by compute resource."""
    return [list(group) for _, group in groupby(nodes, key=lambda node: (node.queue, node.compute))]


def _nodes(plan: Plan) -> str:
    lines = ["# Nodes and partitions, named as ParallelCluster names them."]
    members: dict[str, list[str]] = {}
    for nodes in _groups(plan.compute):
        addresses = ",".join(node.address for node in nodes)
        lines.append(f"NodeName={_names(nodes)} NodeAddr={addresses} State=UNKNOWN Weight=1000 {_hardware(nodes[0])}")
    for nodes in _groups(plan.powered_down):
        lines.append(f"NodeName={_names(nodes)} State=CLOUD Weight=2000 {_hardware(nodes[0])}")
    for nodes in [*_groups(plan.compute), *_groups(plan.powered_down)]:
        members.setdefault(nodes[0].queue, []).append(_names(nodes))
    for position, queue in enumerate(plan.environment.cluster.queues):
        if queue.name in members:
            exclusive = " OverSubscribe=EXCLUSIVE" if queue.exclusive else ""
            default = "YES" if position == 0 else "NO"
            custom = custom_slurm_settings(plan.environment, queue)
            lines.append(
                f"PartitionName={queue.name} Nodes={','.join(members[queue.name])} Default={default} MaxTime=INFINITE"
                f" State=UP{exclusive}{''.join(f' {name}={value}' for name, value in custom.items())}"
            )
    return "\n".join([*lines, ""])


def _hardware(node: Node) -> str:
    features = ["dynamic", node.instance_type, node.compute]
    features += ["efa"] if node.efa_interfaces else []
    features += ["gpu"] if node.gpus else []
    gres = f" Gres=gpu:{node.gpu.lower()}:{node.gpus}" if node.gpus else ""
    return f"CPUs={node.cpus} RealMemory={node.memory_mib} Feature={','.join(features)}{gres}"


def _gres(plan: Plan) -> str:
    lines = []
    for nodes in [*_groups(plan.compute), *_groups(plan.powered_down)]:
        first = nodes[0]
        if first.gpus:
            lines.append(
                f"NodeName={_names(nodes)} Name=gpu Type={first.gpu.lower()} File=/dev/nvidia[0-{first.gpus - 1}]"
            )
    return "\n".join([*lines, ""])


def _slurmdbd(plan: Plan, password: str) -> str:
    return (
        "AuthType=auth/munge\nDbdHost=localhost\nSlurmUser=slurm\nDebugLevel=info\nLogFile=/var/log/slurmdbd.log\n"
        f"PidFile=/run/slurmdbd/slurmdbd.pid\nStorageType=accounting_storage/mysql\nStorageHost={plan.aws.address}\n"
        f"StorageUser=slurm\nStoragePass={password}\nStorageLoc={DATABASE}\n"
    )
