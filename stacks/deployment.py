"""All stacks of an environment, with their references to each other."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from settings.stacks import STACKS, has_database_stack
from stacks.api import ApiStack
from stacks.cluster import ClusterStack
from stacks.data_links import DataLinksStack
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.storage import StorageStack


def compose(scope: Construct, environment: Environment) -> None:
    """Build the stacks of `environment` in `scope`, an app or a stage.

    Network, images and API do not depend on each other: `cdk deploy --all --concurrency 4` deploys them in parallel.
    The cluster waits for the data links: FSx exports what is written after an association exists, so a job that ran
    before would leave files that are in no bucket. The database stack exists where `cluster.slurm.accounting` makes
    or removes a database: a deployed one stays as it is if the key is left out.
    """
    network = NetworkStack(scope, environment=environment)
    storage = StorageStack(scope, environment=environment, network=network)
    data_links = DataLinksStack(scope, environment=environment, storage=storage)
    images = ImagesStack(scope, environment=environment)
    api = ApiStack(scope, environment=environment)
    database = None
    if has_database_stack(environment):
        # Not at the top: aws_rds takes a tenth of a second to import.
        from stacks.database import DatabaseStack

        database = DatabaseStack(scope, environment=environment, network=network)
    cluster = ClusterStack(
        scope,
        environment=environment,
        network=network,
        storage=storage,
        repositories=images.repositories,
        api=api,
        database=database.references if database else None,
    )
    cluster.add_stack_dependency(data_links, "files written before an association exists are not exported")
    if database is not None and database.references is None:
        database.add_stack_dependency(cluster, "it stops using the database before the database is removed")
    observability = ObservabilityStack(scope, environment=environment, network=network, storage=storage, api=api)
    observability.add_stack_dependency(cluster, "it finds the cluster's nodes")


def compose_removal(scope: Construct, account: str, region: str, name: str) -> None:
    """Build a placeholder for each stack that the environment `name` may have, for `cdk destroy`.

    The CDK CLI reads only names and dependencies of the stacks that it deletes, and skips those that do not exist. It
    deletes with the roles of `cdk bootstrap`; DeleteStack would need permissions of the operator's on all resources.
    Each stack depends on all before it in `STACKS`: of stacks that are destroyed by name, the CLI orders only direct
    dependencies. The file's own dependencies may not be those of what is deployed: with `accounting: false` the
    database depends on the cluster, which may still use it.
    """
    env = cdk.Environment(account=account, region=region)
    made: list[cdk.Stack] = []
    for part in STACKS:
        if part == "promotion":  # the pipeline's
            continue
        stack = cdk.Stack(scope, part, stack_name=f"{name}-{part}", env=env)
        cdk.CfnWaitConditionHandle(stack, "Empty")  # the CDK refuses a template without resources
        for earlier in made:
            stack.add_stack_dependency(earlier)
        made.append(stack)
