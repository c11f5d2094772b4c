"""Who owns a cluster, and what the resource is called in CloudFormation."""

import hashlib

OWNER_TAG = "trainyard:owner"
NOT_CREATED = "not-created"
_TAG_VALUE_LIMIT = 256  # Amazon EC2 and CloudFormation tag values
_DIGITS = 12


def owner_of(stack_id: str, logical_id: str) -> str:
    """The value of the ownership tag: `<StackId>/<LogicalResourceId>`.

    Where that exceeds the 256 characters of a tag value, a digest stands for the logical id.
    """
    owner = f"{stack_id}/{logical_id}"
    if len(owner) <= _TAG_VALUE_LIMIT:
        return owner
    return f"{stack_id}/{digest(stack_id, logical_id)}"


def physical_id(cluster_name: str, stack_id: str, logical_id: str) -> str:
    """The physical id of a cluster that this resource made, or may have made."""
    return f"{cluster_name}/{digest(stack_id, logical_id)}"


def not_created_id(cluster_name: str) -> str:
    """The physical id of a cluster that was never made; its Delete does nothing."""
    return f"{NOT_CREATED}/{cluster_name}"


def was_never_created(identifier: str) -> bool:
    return identifier.startswith(f"{NOT_CREATED}/")


def cluster_named_by(identifier: str, stack_id: str, logical_id: str) -> str | None:
    """The cluster name within a physical id of ours; None for any other id.

    CloudFormation invents an id of its own for a resource that never answered its Create.
    """
    name, separator, given = identifier.partition("/")
    if separator and name and name != NOT_CREATED and given == digest(stack_id, logical_id):
        return name
    return None


def digest(stack_id: str, logical_id: str) -> str:
    """Twelve hexadecimal digits that stand for a resource of a stack."""
    return hashlib.sha256(f"{stack_id}/{logical_id}".encode()).hexdigest()[:_DIGITS]
