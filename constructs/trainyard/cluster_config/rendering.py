"""The whole configuration: its parts, Slurm's settings, shared storage, monitoring and tags."""

from __future__ import annotations

from collections.abc import Mapping

from settings.instances import instance_types
from settings.model.environment import Environment
from settings.model.people import Directory
from settings.stacks import ENVIRONMENT_TAG
from trainyard.cluster_config.nodes import checks_gpus, head_node, login_nodes, queue
from trainyard.cluster_config.references import References, Section
from trainyard.cluster_config.shares import share_settings

# Slurm runs it as root on every compute node, before the node registers and then every five minutes, not on all nodes
# at once (CYCLE). The program is part of the bundle (cluster_assets/scans/node-health.sh); its path never changes.
# ParallelCluster sets none of these three parameters and allows users to set them.
HEALTH_CHECK = {
    "HealthCheckProgram": "/opt/trainyard/current/scans/node-health.sh",
    "HealthCheckInterval": "300",
    "HealthCheckNodeState": "ANY,CYCLE",
}

# Slurm runs it for `sbatch --mail-type`, if the environment has notifications. ParallelCluster does not set it, allows
# it (pcluster 3.16.1, validators/slurm_settings_validator.py) and applies it without a stop of the fleet.
MAIL = {"MailProg": "/opt/trainyard/current/monitoring/slurm-mail.sh"}

# What `trainyard cost` needs of the records: the GPUs of each job, and its comment, which names the model.
# ParallelCluster sets neither (facts: cookbook.json). slurmctld refuses the first without a database. With an
# existing one and no teams, the environment file sets them: its configuration does not change.
RECORDS = {"AccountingStorageTRES": "gres/gpu", "AccountingStoreFlags": "job_comment"}

# DCGM's check of eight GPUs, a prolog, outlasts ParallelCluster's timers (aws-parallelcluster#6777, open, 2025-04-03;
# aws-parallelcluster-cookbook f75d84c, slurm.conf.erb: BatchStartTimeout 180, MessageTimeout 60). Slurm requeues the
# job ("missing from batch node") BatchStartTimeout + 10 s after its start, a step on further nodes fails after both
# timeouts, and the job's output says "Prolog hung" after MessageTimeout - 2 s. So a check may take ten minutes, and
# three without that message. Slurm 24.11 logs an error unless UnkillableStepTimeout is five times MessageTimeout.
LONG_GPU_CHECK = {"BatchStartTimeout": "600", "MessageTimeout": "180", "UnkillableStepTimeout": "900"}
GPUS_OF_LONG_CHECK = 8


def render(environment: Environment, references: References) -> Section:
    """The ParallelCluster configuration of `environment`. The same input gives the same output."""
    cluster = environment.cluster
    # On every role that ParallelCluster makes.
    boundary = cluster.permissions_boundary
    configuration = {
        "Region": environment.region,
        # The official AMI; the operating system can only change with a new cluster.
        "Image": {"Os": cluster.os},
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": head_node(environment, references),
        **login_nodes(environment, references),
        "Scheduling": {
            "Scheduler": "slurm",
            "ScalingStrategy": cluster.slurm.scaling,
            "SlurmSettings": _slurm_settings(environment, references),
            "SlurmQueues": [queue(environment, references, settings) for settings in cluster.queues],
        },
        **_shared_storage(environment, references),
        "Monitoring": _monitoring(environment),
        **_directory_service(environment.people.directory),
        **({"Iam": {"PermissionsBoundary": boundary}} if boundary else {}),
        # The custom resource adds a tag with the cluster's owner.
        "Tags": [
            {"Key": key, "Value": value}
            for key, value in sorted({**environment.tags, ENVIRONMENT_TAG: environment.name}.items())
        ],
    }
    return merged(configuration, environment.parallelcluster)


def merged(base: Mapping[str, object], changes: Mapping[str, object]) -> Section:
    """`base` with `changes`: mappings by key, lists of items with a Name by Name; anything else replaces."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value)
        elif isinstance(old, list) and isinstance(value, list) and all(map(_is_named, (*old, *value))):
            by_name = {item["Name"]: item for item in old}
            by_name |= {item["Name"]: merged(by_name.get(item["Name"], {}), item) for item in value}
            result[key] = list(by_name.values())
        else:
            result[key] = value
    return result


def _is_named(item: object) -> bool:
    return isinstance(item, Mapping) and "Name" in item


def _slurm_settings(environment: Environment, references: References) -> Section:
    settings = environment.cluster.slurm
    # All strings, as in slurm.conf, one parameter in each item. The environment file's parameters come first.
    parameters = {name: str(value) for name, value in settings.settings.items()}
    given = {name.lower() for name in parameters}
    defaults = HEALTH_CHECK | (LONG_GPU_CHECK if _checks_many_gpus(environment) else {})
    defaults |= MAIL if environment.observability.mode != "off" else {}
    defaults |= share_settings(environment)
    own = settings.accounting is not None and settings.accounting.own
    defaults |= RECORDS if own or environment.teams else {}
    parameters |= {name: value for name, value in defaults.items() if name.lower() not in given}
    section: Section = {
        "ScaledownIdletime": settings.scaledown_minutes,
        "QueueUpdateStrategy": settings.queue_update,
        "EnableMemoryBasedScheduling": settings.memory_scheduling,
        "CustomSlurmSettings": [{name: value} for name, value in parameters.items()],
    }
    if environment.network.egress == "endpoints-only":
        # ParallelCluster would write the nodes' Slurm names to a zone of Route 53, which has no VPC endpoint.
        # Source: ParallelCluster guide, "AWS ParallelCluster in a single subnet with no internet access".
        section["Dns"] = {"DisableManagedDns": True, "UseEc2Hostnames": True}
    if accounting := settings.database:
        section["Database"] = {
            "Uri": accounting.uri,
            "UserName": accounting.user,
            "PasswordSecretArn": accounting.password_secret_arn,
            **({"DatabaseName": accounting.database} if accounting.database else {}),
        }
    elif made := references.database:
        section["Database"] = {
            "Uri": made.uri,
            "UserName": made.user,
            "PasswordSecretArn": made.password_secret_arn,
        }
    return section


def _directory_service(directory: Directory | None) -> Section:
    if directory is None:
        return {}
    section: Section = {
        "DomainName": directory.domain,
        "DomainAddr": directory.address,
        "PasswordSecretArn": directory.password_secret_arn,
        "DomainReadOnlyUser": directory.read_user,
        "LdapTlsReqCert": directory.verify,
        "GenerateSshKeysForUsers": directory.ssh_keys,
    }
    if directory.ca_certificate:
        section["LdapTlsCaCert"] = directory.ca_certificate
    if directory.access_filter:
        section["LdapAccessFilter"] = directory.access_filter
    if directory.sssd:
        section["AdditionalSssdConfigs"] = dict(directory.sssd)
    return {"DirectoryService": section}


def _checks_many_gpus(environment: Environment) -> bool:
    known = instance_types()
    return any(
        checks_gpus(compute, queue) and name in known and known[name].gpus >= GPUS_OF_LONG_CHECK
        for queue in environment.cluster.queues
        for compute in queue.compute
        for name in compute.instance_types
    )


def _shared_storage(environment: Environment, references: References) -> Section:
    """The SharedStorage: existing file systems by id.

    The id under one Name can never change: a file system that was replaced needs a new name in the environment file.
    """
    storage = environment.storage
    volumes = storage.openzfs.volumes if storage.openzfs else ()
    found = [("lustre", one.name, one.mount, references.lustre_ids[one.name]) for one in storage.lustre]
    found += [("openzfs", one.name, one.mount, references.openzfs_volume_ids[one.name]) for one in volumes]
    found += [(one.type, one.name, one.mount, one.id) for one in storage.existing]
    mounts: list[Section] = []
    for kind, name, folder, its_id in found:
        storage_type, key = ("FsxLustre", "FileSystemId") if kind == "lustre" else ("FsxOpenZfs", "VolumeId")
        entry: Section = {"Name": name, "MountDir": folder, "StorageType": storage_type}
        mounts.append({**entry, f"{storage_type}Settings": {key: its_id}})
    return {"SharedStorage": mounts} if mounts else {}


def _monitoring(environment: Environment) -> Section:
    settings = environment.cluster.monitoring
    return {
        "DetailedMonitoring": settings.detailed,
        "Logs": {
            "CloudWatch": {
                "Enabled": True,
                "RetentionInDays": settings.log_days,
                "DeletionPolicy": "Retain" if environment.retention.logs == "keep" else "Delete",
            }
        },
        "Dashboards": {"CloudWatch": {"Enabled": settings.dashboard}},
        "Alarms": {"Enabled": settings.alarms},
    }
