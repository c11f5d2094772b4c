"""How a report words what an update would change."""

from cluster_resource import failures
from cluster_resource.api import Change


def test_a_queue_that_goes_or_comes_is_named_not_written_out() -> None:
    queue = "{'Name': 'extra', 'CapacityType': 'ONDEMAND', 'ComputeResources': []}"
    gone = Change("Scheduling.SlurmQueues", queue, "-", "All compute nodes must be stopped")
    come = Change("Scheduling.SlurmQueues", "-", queue)
    assert failures.change_line(gone).startswith("Scheduling.SlurmQueues: extra is removed (")
    assert failures.change_line(come) == "Scheduling.SlurmQueues: extra is added"


def test_a_value_is_told_as_it_was_and_as_it_should_be() -> None:
    assert failures.change_line(Change("Image.Os", "alinux2023", "ubuntu2404")) == (
        "Image.Os: now alinux2023, asked for ubuntu2404"
    )
