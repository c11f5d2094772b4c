"""The laboratory: a real Slurm with several nodes on one host, for jobs, bootstrap and their tests. See README.md."""

from local.slurm.host import Unavailable, check
from local.slurm.laboratory import Laboratory
from local.slurm.plan import Node, Plan, Shared, Sizes, Timeouts, make

__all__ = ["Laboratory", "Node", "Plan", "Shared", "Sizes", "Timeouts", "Unavailable", "check", "make"]
