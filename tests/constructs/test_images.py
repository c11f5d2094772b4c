"""The ECR repositories."""

from __future__ import annotations

import json

from tests.constructs.stacks_of import only, synthesize


def test_settings_of_a_repository() -> None:
    settings = {"name": "team/train", "immutable": True, "keep_images": 5, "untagged_days": 3}
    images = synthesize(images={"repositories": [settings]}, retention={"images": "delete"}).images
    repository = only(images, "AWS::ECR::Repository", RepositoryName="team/train")
    properties = repository["Properties"]
    assert properties["ImageTagMutability"] == "IMMUTABLE"
    untagged, tagged = json.loads(properties["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    assert untagged["selection"].items() >= {"tagStatus": "untagged", "countNumber": 3, "countUnit": "days"}.items()
    assert tagged["selection"].items() >= {"tagStatus": "any", "countNumber": 5}.items()
    assert repository["DeletionPolicy"] == "Delete"
    assert properties["EmptyOnDelete"] is True


def test_names_that_differ_in_a_slash_are_two_repositories_both_kept_by_default() -> None:
    images = synthesize(images={"repositories": [{"name": "team/train"}, {"name": "team-train"}]}).images
    images.resource_count_is("AWS::ECR::Repository", 2)
    images.all_resources("AWS::ECR::Repository", {"DeletionPolicy": "Retain"})
