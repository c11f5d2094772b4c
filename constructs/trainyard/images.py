"""ECR repositories for the container images of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from settings.model.images import Images, Repository
from trainyard.retention import retain


class ImageRepositories(Construct):
    """The repositories of an environment: private, encrypted, scanned, and cleaned of old images.

    `name_of` gives the name in ECR of a repository of the settings.
    """

    repositories: Mapping[str, ecr.IRepository]

    def __init__(
        self, scope: Construct, construct_id: str, *, images: Images, name_of: Callable[[str], str], kept: bool
    ) -> None:
        super().__init__(scope, construct_id)
        self.repositories = {
            item.name: self._repository(item, name_of(item.name), kept) for item in images.repositories
        }

    def _repository(self, settings: Repository, name: str, kept: bool) -> ecr.Repository:
        repository = ecr.Repository(
            self,
            # A construct id must not contain a slash; no repository name contains a colon.
            settings.name.replace("/", ":"),
            repository_name=name,
            encryption=ecr.RepositoryEncryption.AES_256,
            image_scan_on_push=settings.scan_on_push,
            image_tag_mutability=(ecr.TagMutability.IMMUTABLE if settings.immutable else ecr.TagMutability.MUTABLE),
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if kept else RemovalPolicy.DESTROY,
            empty_on_delete=not kept,
            lifecycle_rules=[
                ecr.LifecycleRule(
                    rule_priority=1,
                    description="Untagged images",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=Duration.days(settings.untagged_days),
                ),
                ecr.LifecycleRule(
                    rule_priority=2,
                    description="The oldest of too many images",
                    tag_status=ecr.TagStatus.ANY,
                    max_image_count=settings.keep_images,
                ),
            ],
        )
        retain(repository.node.default_child, kept=kept)
        return repository
