"""The laboratory: a real Slurm with several nodes on one host, for jobs, bootstrap and their tests. See README.md."""

from local.slurm.host import Unavailable
from local.slurm.laboratory import Laboratory
from local.slurm.plan import Plan, Timeouts, make

__all__ = ["Laboratory", "Plan", "Timeouts", "Unavailable", "make"]
