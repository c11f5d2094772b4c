"""What outlives a stack: removal policies from the retention settings of an environment."""

from __future__ import annotations

from typing import TypeVar

from aws_cdk import CfnDeletionPolicy, CfnResource, RemovalPolicy

Resource = TypeVar("Resource", bound=CfnResource)


def keep(resource: Resource) -> Resource:
    """Let the resource stand when its stack goes, and when an update would put a new one in its place."""
    resource.apply_removal_policy(RemovalPolicy.RETAIN, apply_to_update_replace_policy=True)
    return resource


def delete_with_stack(resource: Resource) -> Resource:
    """Delete the resource with its stack, but keep the old one where an update replaces it.

    A destroy is asked for by name; a replacement may be a side effect of an edit, and must not cost data.
    """
    resource.cfn_options.deletion_policy = CfnDeletionPolicy.DELETE
    resource.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
    return resource


def retain(resource: Resource, *, kept: bool) -> Resource:
    """`keep` or `delete_with_stack`, by a setting."""
    return keep(resource) if kept else delete_with_stack(resource)
