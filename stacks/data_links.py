"""The stack that links Lustre folders to bucket prefixes."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from stacks.storage import StorageStack
from trainyard.lustre import DataRepositoryAssociations


class DataLinksStack(EnvironmentStack):
    """The data repository associations of all Lustre file systems."""

    def __init__(self, scope: Construct, *, environment: Environment, storage: StorageStack) -> None:
        holds = "Lustre folders tied to bucket prefixes"
        super().__init__(scope, "data-links", environment=environment, holds=holds)
        linked = [lustre for lustre in environment.storage.lustre if lustre.associations]
        if not linked:
            self.add_placeholder()
        for lustre in linked:
            DataRepositoryAssociations(
                self,
                lustre.name,
                lustre=lustre,
                file_system_id=storage.lustre[lustre.name].file_system_id,
                buckets={"data": storage.buckets.data, "checkpoints": storage.buckets.checkpoints},
            )
