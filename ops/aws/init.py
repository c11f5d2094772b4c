"""`trainyard init`: a first environment file, from options, questions, the caller's account and a reservation."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight import reservations
from ops.preflight.aws import Aws, code_of
from ops.problem import Problem
from settings import Environment, Faults, load
from settings.instances import instance_types
from settings.regions import fsx_regions
from settings.rules.file_systems import LUSTRE_MB_S, OPENZFS_MB_S, best_openzfs
from settings.schema import SCHEMA, schema_text

QUESTIONS = {
    "region": "AWS region, for example us-west-2",
    "reservation": "Capacity reservation id, cr-...; none: instances on demand",
    "zone": "Zone id, for example usw2-az2",
    "instance_type": "Instance type of the compute nodes, for example p5.48xlarge",
    "nodes": "Most compute nodes",
}
"""What is asked, in this order, of those that no option and no reservation answers."""

_TYPES = {"default": "odcr", "capacity-block": "capacity-block"}
"""Values of ReservationType in EC2's DescribeCapacityReservations, and what environment files call them."""

_TEXT = Path(__file__).with_name("first.yaml")


def write(file: Path, given: Mapping[str, str], aws_in: Callable[[str], Aws]) -> Environment:
    """Write an environment file that passes `trainyard check`, and the schema next to it if it is missing.

    Args:
        file: must not exist; its stem is the environment's name.
        given: answers by the keys of QUESTIONS; what is missing or empty is asked on the terminal.
        aws_in: access to AWS in a region.

    Raises:
        Problem: the file exists, an answer is missing or wrong, or AWS does not know the reservation.
    """
    if file.exists():
        raise Problem(f"{file} exists, and is not overwritten. Give another file, or remove it.")
    if not file.parent.is_dir() or file.suffix != ".yaml":
        raise Problem(f"{file} cannot be written: give the path of a new .yaml file in a folder that exists.")
    answers = {key: value for key, value in given.items() if value}
    asked = _asked(answers, "region")
    aws = aws_in(asked)
    reservation = answers.get("reservation") or (_ask("reservation") if sys.stdin.isatty() else "")
    capacity = ""
    if reservation:
        found = _reservation(aws, reservation, asked)
        capacity = f"      capacity:\n        type: {found.pop('type')}\n        reservation: {reservation}\n"
        for key, value in found.items():
            if answers.setdefault(key, value) != value:
                raise Problem(f"{reservation} has {key} {value}, not {answers[key]}. Leave the option out.")
    account = str(aws.call("sts", "get_caller_identity")["Account"])
    values = {key: _asked(answers, key) for key in ("zone", "instance_type", "nodes")} | _file_systems(asked)
    facts = instance_types().get(values["instance_type"])
    efa = "true" if facts is not None and facts.efa_interfaces else "false"
    values |= {"name": file.stem, "account": account, "region": asked, "capacity": capacity, "efa": efa}
    values["least"] = f"          min: {values['nodes']}\n" if "capacity-block" in capacity else ""
    text = _TEXT.read_text("utf-8").format(**values)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".trainyard-init-") as folder:
        new = Path(folder) / file.name
        new.write_text(text, "utf-8")
        try:
            environment = load(new)
        except Faults as wrong:
            raise Problem(str(wrong).replace(str(new), file.name)) from wrong
        os.link(new, file)  # fails if the file was made in the meantime
    schema = file.with_name(SCHEMA.name)  # which the file's first line names, for editors
    if not schema.exists():
        schema.write_text(schema_text(Environment), "utf-8")
    return environment


def _file_systems(region: str) -> dict[str, str]:
    """Deployment types that the region has as far as that is recorded, each with its least throughput."""
    known = fsx_regions()
    has_persistent_2 = known["lustre"]["regions"].get(region, {"throughput": LUSTRE_MB_S["PERSISTENT_2"]})["throughput"]
    lustre = "PERSISTENT_2" if has_persistent_2 else "PERSISTENT_1"
    openzfs = best_openzfs(known["openzfs"]["regions"].get(region, ["SINGLE_AZ_HA_2"]))
    return {
        **{"lustre": lustre, "lustre_mb_s": str(LUSTRE_MB_S[lustre][0])},
        **{"openzfs": openzfs, "openzfs_mb_s": str(OPENZFS_MB_S[openzfs[-1]][0])},
    }


def _reservation(aws: Aws, name: str, region: str) -> dict[str, str]:
    try:
        [found] = aws.call("ec2", "describe_capacity_reservations", CapacityReservationIds=[name])[
            "CapacityReservations"
        ]
    except ClientError as error:
        raise Problem(
            f"EC2 has no capacity reservation {name!r} in {region} for this account: {code_of(error)}."
        ) from error
    if found["State"] not in ("active", *reservations.NOT_STARTED):
        raise Problem(f"The capacity reservation {name} is {found['State']}. Give one that is active or scheduled.")
    zone = found.get("AvailabilityZoneId") or _zone_id(aws, found["AvailabilityZone"])
    return {
        "type": _TYPES.get(found.get("ReservationType", "default"), "odcr"),
        "zone": zone,
        "instance_type": found["InstanceType"],
        "nodes": str(reservations.size(found)),
    }


def _zone_id(aws: Aws, name: str) -> str:
    zones: list[dict[str, Any]] = aws.call("ec2", "describe_availability_zones", ZoneNames=[name])["AvailabilityZones"]
    return str(zones[0]["ZoneId"])


def _asked(answers: Mapping[str, str], key: str) -> str:
    if key in answers:
        return answers[key]
    if not sys.stdin.isatty():
        raise Problem(f"--{key.replace('_', '-')} is missing, and there is no terminal to ask on: {QUESTIONS[key]}.")
    return _ask(key)


def _ask(key: str) -> str:
    try:
        return input(f"{QUESTIONS[key]}: ").strip()
    except EOFError:
        raise Problem("No answer. Nothing was written.") from None
