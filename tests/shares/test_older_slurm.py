"""apply_shares.py on Slurm 22.05, the laboratory's default."""

from __future__ import annotations

from tests.shares.conftest import Cluster


def test_the_second_run_has_nothing_to_do(older_cluster: Cluster) -> None:
    later = {"name": "demo", "queue": "gpu", "nodes": 1, "teams": ["nlp"], "start": "2035-01-01T00:00", "hours": 1}
    assert older_cluster.shares("--plan", reservations=[later])[0] == 1
    assert older_cluster.shares("--apply", reservations=[later])[::2] == (0, "")
    nothing: object = (0, {"changes": [], "problems": []}, "")
    assert older_cluster.shares("--plan", reservations=[later]) == nothing
    assert "Invalid qos" in older_cluster.refused("alan", "--qos=urgent")
    older_cluster.lab.wait_for_job(older_cluster.submit("alan", "--gpus=1"))
    # Its reservations have no comment, by which ours are known: one that left the file stays until its end.
    assert older_cluster.shares("--plan") == nothing
    assert "ReservationName=demo" in older_cluster.lab.output("scontrol show reservation", user="root")
