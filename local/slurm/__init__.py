"""A laboratory: a real Slurm with several nodes on one machine, for jobs, bootstrap and the tests of both. See
README.md.
"""

from local.slurm.laboratory import Laboratory
from local.slurm.machine import Unavailable, check
from local.slurm.plan import Node, Plan, Shared, Sizes, Timeouts, make

__all__ = ["Laboratory", "Node", "Plan", "Shared", "Sizes", "Timeouts", "Unavailable", "check", "make"]
