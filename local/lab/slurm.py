"""Slurm's configuration for a plan, as near to ParallelCluster's as one machine allows.

README.md lists what differs: nodes are static (nothing powers them on and off), cores and memory are claimed and not
confined, and waiting times are shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from local.lab.plan import Node, Plan

ETC = "/opt/slurm/etc"
SCRIPTS = f"{ETC}/scripts"
DATABASE = "slurm_acct_db"


def configuration(plan: Plan, controllers: Sequence[str], database_password: str) -> dict[str, str]:
    """The files of /opt/slurm/etc, by name. `controllers` are the control groups' that nodes may use, none for none."""
    return {
        "slurm.conf": _slurm(plan, bool(controllers)),
        "slurm_parallelcluster.conf": _nodes(plan),
        "gres.conf": _gres(plan),
        "cgroup.conf": _cgroup(),
        "slurmdbd.conf": _slurmdbd(plan, database_password),
    }


def accounting_sql(database_password: str) -> str:
    """What the database server runs when it starts."""
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
        # A requeued job is held for as long as the credentials of its first run are valid; 120 s by default.
        "AuthInfo": "cred_expire=5",
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
        # A node claims more cores than this machine has, so nothing can be bound to them.
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
        "SchedulerParameters": "sched_interval=2,bf_interval=2",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory" if plan.environment.cluster.slurm.memory_scheduling else "CR_CPU",
        "GresTypes": "gpu",
        "PrologFlags": "Alloc",
        "Prolog": f"{SCRIPTS}/prolog.d/*",
        "Epilog": f"{SCRIPTS}/epilog.d/*",
        "HealthCheckProgram": f"{SCRIPTS}/health-check",
        "HealthCheckInterval": 30,
        "HealthCheckNodeState": "ANY",
        "JobRequeue": 1,
        "RequeueExit": "",
        "PropagateResourceLimitsExcept": "MEMLOCK",
        "JobCompType": "jobcomp/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": 30,
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": plan.head.name,
        "AccountingStorageTRES": "gres/gpu",
    }
    parameters |= plan.environment.cluster.slurm.settings
    parameters |= plan.slurm
    lines = [f"{name}={value}" for name, value in parameters.items() if value != ""]
    return "\n".join(["# Written by the laboratory.", *lines, f"include {ETC}/slurm_parallelcluster.conf", ""])


def _names(nodes: Sequence[Node]) -> str:
    """The host list of one compute resource's nodes."""
    stem = nodes[0].name.rpartition("-")[0]
    return f"{stem}-[1-{len(nodes)}]" if len(nodes) > 1 else nodes[0].name


def _nodes(plan: Plan) -> str:
    lines = ["# Nodes and partitions, named as ParallelCluster names them."]
    members: dict[str, list[str]] = {}
    for (queue, compute), group in groupby(plan.compute, key=lambda node: (node.queue, node.compute)):
        nodes = list(group)
        first = nodes[0]
        gres = f" Gres=gpu:{first.gpu.lower()}:{first.gpus}" if first.gpus else ""
        features = ",".join(
            [
                "dynamic",
                first.instance_type,
                compute,
                *(["efa"] if first.efa_interfaces else []),
                *(["gpu"] if gres else []),
            ]
        )
        addresses = ",".join(node.address for node in nodes)
        lines.append(
            f"NodeName={_names(nodes)} NodeAddr={addresses} CPUs={first.cpus} RealMemory={first.memory_mib}"
            " State=UNKNOWN"
            f" Feature={features}{gres} Weight=1000"
        )
        members.setdefault(queue, []).append(_names(nodes))
    for position, queue in enumerate(plan.environment.cluster.queues):
        if queue.name in members:
            exclusive = " OverSubscribe=EXCLUSIVE" if queue.exclusive else ""
            default = "YES" if position == 0 else "NO"
            nodes_of = ",".join(members[queue.name])
            lines.append(
                f"PartitionName={queue.name} Nodes={nodes_of} Default={default} MaxTime=INFINITE State=UP{exclusive}"
            )
    return "\n".join([*lines, ""])


def _gres(plan: Plan) -> str:
    lines = []
    for _, group in groupby((node for node in plan.compute if node.gpus), key=lambda node: (node.queue, node.compute)):
        nodes = list(group)
        lines.append(
            f"NodeName={_names(nodes)} Name=gpu Type={nodes[0].gpu.lower()} File=/dev/nvidia[0-{nodes[0].gpus - 1}]"
        )
    return "\n".join([*lines, ""])


def _cgroup() -> str:
    return (
        "CgroupPlugin=cgroup/v1\nConstrainDevices=yes\nConstrainCores=no\nConstrainRAMSpace=no\nConstrainSwapSpace=no\n"
    )


def _slurmdbd(plan: Plan, password: str) -> str:
    return (
        "AuthType=auth/munge\nDbdHost=localhost\nSlurmUser=slurm\nDebugLevel=info\nLogFile=/var/log/slurmdbd.log\n"
        f"PidFile=/run/slurmdbd/slurmdbd.pid\nStorageType=accounting_storage/mysql\nStorageHost={plan.aws.address}\n"
        f"StorageUser=slurm\nStoragePass={password}\nStorageLoc={DATABASE}\n"
    )
