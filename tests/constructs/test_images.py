"""The ECR repositories."""

from __future__ import annotations

import json

import pytest

from tests.constructs.stacks_of import only, synthesize


def test_settings_of_a_repository() -> None:
    settings = {"name": "team/train", "immutable": True, "keep_images": 5, "untagged_days": 3}
    images = synthesize(images={"repositories": [settings]}, retention={"images": "delete"}).images
    repository = only(images, "AWS::ECR::Repository", RepositoryName="unit/team/train")
    properties = repository["Properties"]
    assert properties["ImageTagMutability"] == "IMMUTABLE"
    untagged, tagged = json.loads(properties["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    assert untagged["selection"].items() >= {"tagStatus": "untagged", "countNumber": 3, "countUnit": "days"}.items()
    assert tagged["selection"].items() >= {"tagStatus": "any", "countNumber": 5}.items()
    assert repository["DeletionPolicy"] == "Delete"
    assert properties["EmptyOnDelete"] is True


@pytest.mark.parametrize(
    ("prefix", "name"), [({}, "unit/train"), ({"prefix": "ml/team"}, "ml/team/train"), ({"prefix": ""}, "train")]
)
def test_a_repository_has_the_environments_prefix_or_another(prefix: dict[str, str], name: str) -> None:
    images = synthesize(images={"repositories": [{"name": "train"}], **prefix}).images
    only(images, "AWS::ECR::Repository", RepositoryName=name)


def test_another_prefix_replaces_the_repository_and_keeps_the_old_one() -> None:
    before, after = (
        synthesize(images={"prefix": prefix}, retention={"images": "delete"}).images.find_resources(
            "AWS::ECR::Repository"
        )
        for prefix in ("", "unit")
    )
    assert set(before) == set(after)
    assert {item["UpdateReplacePolicy"] for item in after.values()} == {"Retain"}


def test_names_that_differ_in_a_slash_are_two_repositories_both_kept_by_default() -> None:
    images = synthesize(images={"repositories": [{"name": "team/train"}, {"name": "team-train"}]}).images
    images.resource_count_is("AWS::ECR::Repository", 2)
    images.all_resources("AWS::ECR::Repository", {"DeletionPolicy": "RetainExceptOnCreate"})
