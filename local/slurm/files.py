"""The files of a node before its start: identity, addresses, users, and the description of its hardware."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from local.slurm.base import containers
from local.slurm.plan import AWS_NAME, ROOT_MIB, Node, Plan

HERE = Path(__file__).parent
METADATA_ADDRESS = "169.254.169.254"
FIRST_UID = 1000
# More users, to test what several people share. With a people file its users are all.
MORE_USERS = ("ada", "grace")
DRIVER, CUDA = "580.95.05", "13.0"


def users(plan: Plan) -> tuple[str, ...]:
    """The users of the laboratory, the cluster's user first; uids from 1000."""
    more = () if plan.people and plan.people["has_users"] else MORE_USERS
    return (plan.user, *(name for name in more if name != plan.user))


def write_node(plan: Plan, node: Node, folder: Path, *, base: Path, group: str, controllers: Sequence[str]) -> None:
    """Write `spec`, `mounts`, `binds` and the tree `files` of a node into its folder."""
    trees = [HERE / "root" / "all"]
    trees += [HERE / "root" / node.role] if (HERE / "root" / node.role).is_dir() else []
    trees += [HERE / "root" / "gpu"] if node.gpus else []
    if genuine := containers(plan.base):
        trees.append(genuine)  # over the stand-ins, which have the same paths
    metadata = "addr add" if node.role == "aws" else "route add"
    spec: dict[str, str | int] = {
        "INDEX": node.index,
        "ADDRESS": node.address,
        "BASE": str(base),
        "TREES": " ".join(str(tree) for tree in trees),
        "ROOT_MIB": ROOT_MIB,
        "SCRATCH": node.scratch,
        "SCRATCH_MIB": plan.scratch_mib,
        "GPUS": node.gpus,
        "EFA": node.efa_interfaces,
        "CGROUP": group,
        "CGROUPS": " ".join(controllers),
        "ROUTE": f"{metadata} {METADATA_ADDRESS}/32 dev eth0",
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec").write_text("".join(f"{name}={shlex.quote(str(value))}\n" for name, value in spec.items()))
    (folder / "mounts").write_text(
        "".join(f"{one.name} {one.mount}\n" for one in sorted(plan.shared, key=lambda one: one.mount))
    )
    (folder / "binds").write_text("".join(f"{source} {target}\n" for target, source in plan.binds.items()))
    for path, text in _tree(plan, node, base).items():
        file = folder / "files" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _tree(plan: Plan, node: Node, base: Path) -> dict[str, str]:
    hosts = ["127.0.0.1 localhost"]
    hosts += [f"{one.address} {one.name}" + (" head" if one.role == "head" else "") for one in plan.nodes]
    hosts.append(f"{plan.aws.address} {plan.registry}")
    tree = {
        "etc/hostname": f"{node.name}\n",
        "etc/hosts": "\n".join([*hosts, ""]),
        "etc/resolv.conf": "",
        "etc/passwd": (base / "etc/passwd").read_text(),
        "etc/group": (base / "etc/group").read_text(),
        "etc/shadow": (base / "etc/shadow").read_text(),
        "etc/profile.d/slurm.sh": 'export PATH="${PATH}:/usr/sbin:/sbin"\n',
        # As cloud-init writes it on EC2 (90-cloud-init-users).
        "etc/sudoers.d/90-cluster-user": f"{plan.user} ALL=(ALL) NOPASSWD:ALL\n",
        "etc/lab/account": plan.environment.account + "\n",
    }
    for uid, user in enumerate(users(plan), start=FIRST_UID):
        if re.search(rf"^{user}:", tree["etc/passwd"], re.MULTILINE):
            continue
        tree["etc/passwd"] += f"{user}:x:{uid}:{uid}::/home/{user}:/bin/bash\n"
        tree["etc/group"] += f"{user}:x:{uid}:\n"
        tree["etc/shadow"] += f"{user}:*:20000:0:99999:7:::\n"
    if node.role == "compute":
        facts = {"node_type": "ComputeFleet", "scheduler_queue_name": node.queue, "region": plan.environment.region}
        tree["etc/chef/dna.json"] = json.dumps({"cluster": facts}, indent=1)
        tree["etc/parallelcluster/slurm_plugin/slurm_nodename"] = f"{node.name}\n"
    elif node.role in ("head", "login"):
        kind = "HeadNode" if node.role == "head" else "LoginNode"
        facts = {"node_type": kind, "region": plan.environment.region}
        tree["etc/chef/dna.json"] = json.dumps({"cluster": facts}, indent=1)
    if node.gpus:
        tree["etc/lab/gpus.json"] = json.dumps({"driver": DRIVER, "cuda": CUDA, "gpus": _gpus(node)}, indent=1)
        tree["etc/lab/nvme-disks"] = f"{node.nvme_disks}\n"
    return tree


def _gpus(node: Node) -> list[dict[str, object]]:
    """What the stand-in of nvidia-smi shows: an idle GPU of the instance type, marked as simulated."""
    name = f"NVIDIA {node.gpu} 80GB HBM3" if node.gpu == "H100" else f"NVIDIA {node.gpu}"
    return [
        {
            "index": index,
            "name": f"{name} (simulated)",
            "uuid": f"GPU-00000000-0000-0000-{node.index:04d}-{index:012d}",
            "driver_version": DRIVER,
            "pci.bus_id": f"00000000:{0x53 + index:02X}:00.0",
            "memory.total": node.gpu_memory_mib,
            "memory.used": 0,
            "utilization.gpu": 0,
            "temperature.gpu": 31,
            "power.draw": 68.5,
            "clocks.sm": 345,
            "persistence_mode": "Enabled",
            "ecc.errors.uncorrected.volatile.total": 0,
            "remapped_rows.failure": "No",
            "clocks_throttle_reasons.active": "0x0000000000000000",
            "nvlink": 18,
            # Not nvidia-smi's: TFLOP/s and GB/s for figures/torch, made up.
            "tflops": 640,
            "gb_s": 2900,
        }
        for index in range(node.gpus)
    ]


def instances(plan: Plan) -> str:
    """The values of the metadata service, by node address."""
    zone = f"{plan.environment.region}a"
    answers = {}
    for node in plan.nodes:
        if node.name == AWS_NAME:
            continue
        identity = f"i-{node.index:017x}"
        document = {
            "accountId": plan.environment.account, "region": plan.environment.region, "availabilityZone": zone,
            "instanceId": identity, "instanceType": node.instance_type, "privateIp": node.address,
        }  # fmt: skip
        answers[node.address] = {
            "meta-data/instance-id": identity,
            "meta-data/instance-type": node.instance_type,
            "meta-data/local-ipv4": node.address,
            "meta-data/local-hostname": node.name,
            "meta-data/hostname": node.name,
            "meta-data/placement/region": plan.environment.region,
            "meta-data/placement/availability-zone": zone,
            "meta-data/placement/availability-zone-id": plan.environment.network.zone,
            "meta-data/services/domain": "amazonaws.com",
            "dynamic/instance-identity/document": json.dumps(document),
        }
    return json.dumps(answers, indent=1)
