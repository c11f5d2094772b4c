"""The ECR repositories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.constructs.stacks_of import environment, only, synthesize


def repository(settings: dict[str, Any], **retention: str) -> Mapping[str, Any]:
    made = synthesize(environment(images={"repositories": [{"name": "team/train", **settings}]}, retention=retention))
    return only(made.images, "AWS::ECR::Repository", RepositoryName="team/train")


def test_images_are_scanned() -> None:
    assert repository({})["Properties"]["ImageScanningConfiguration"] == {"ScanOnPush": True}


@pytest.mark.parametrize(("immutable", "mutability"), [(True, "IMMUTABLE"), (False, "MUTABLE")])
def test_tags_are_fixed_where_asked(immutable: bool, mutability: str) -> None:
    assert repository({"immutable": immutable})["Properties"]["ImageTagMutability"] == mutability


def test_old_images_expire() -> None:
    policy = repository({"keep_images": 5, "untagged_days": 3})["Properties"]["LifecyclePolicy"]["LifecyclePolicyText"]
    untagged, tagged = json.loads(policy)["rules"]
    assert untagged["selection"].items() >= {"tagStatus": "untagged", "countNumber": 3, "countUnit": "days"}.items()
    assert tagged["selection"].items() >= {"tagStatus": "any", "countNumber": 5}.items()


def test_images_are_kept_by_default() -> None:
    assert repository({})["DeletionPolicy"] == "Retain"


def test_images_go_with_the_stack_where_asked() -> None:
    resource = repository({}, images="delete")
    assert resource["DeletionPolicy"] == "Delete"
    assert resource["Properties"]["EmptyOnDelete"] is True


def test_names_that_differ_in_a_slash_are_two_repositories() -> None:
    names = [{"name": "team/train"}, {"name": "team-train"}]
    synthesize(environment(images={"repositories": names})).images.resource_count_is("AWS::ECR::Repository", 2)
