"""The database stack of an environment."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from stacks.network import NetworkStack
from trainyard.cluster_config import DatabaseReferences
from trainyard.database import AccountingDatabase


class DatabaseStack(EnvironmentStack):
    """The accounting database; empty with `accounting: false`, so that a deployment removes it."""

    references: DatabaseReferences | None = None

    def __init__(self, scope: Construct, *, environment: Environment, network: NetworkStack) -> None:
        accounting, kept = environment.cluster.slurm.accounting, environment.retention.databases == "keep"
        super().__init__(
            scope,
            "database",
            environment=environment,
            holds="the accounting database",
            termination_protection=kept,
        )
        if accounting is None or not accounting.own:
            self.add_placeholder()
            return
        self.references = AccountingDatabase(
            self,
            "Accounting",
            name=environment.name,
            accounting=accounting,
            settings=environment.network,
            network=network.network,
            head_group=network.security_groups.head,
            kept=kept,
            logs=self.function_logs,
        ).references
