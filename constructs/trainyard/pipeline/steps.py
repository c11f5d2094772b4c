"""The CodeBuild steps of a pipeline. Each is a few lines of shell around a command that also runs on a laptop.

No build is privileged and none needs Docker: functions are copied (docs/decisions/0003-bundling-without-docker.md).
Nothing is cached between builds: builds of every commit would write the cache, and builds that deploy would read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, pipelines
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs

from settings.model import Environment
from trainyard.pipeline.names import Purpose, target_role_arn

PYTHON = "3.11"
NODE = "22"
CDK_CLI = "2.1148.1"
"""As in package.json; a test compares. Version 3.0.0 refuses the assembly of the pinned aws-cdk-lib."""
CDK_ASSETS = "4.7.3"
ASSEMBLY = "cdk.out"
REPORT = "report"
SAFE = ("nothing", "safe")
"""Levels of a verdict that need no approval."""

_SYNTH_MINUTES = 60
_STEP_MINUTES = 30
_VALIDATION_MINUTES = 240
"""Nodes boot first, a quarter of an hour on P5; then come jobs of an hour at most, for NCCL and for storage."""


def defaults(log_group: logs.ILogGroup) -> pipelines.CodeBuildOptions:
    """What all projects share, CDK's own (self-mutation, publication of assets) too.

    Ubuntu 22.04 with the interpreters named by version: CodeBuild keeps the patches of a major version of its image.
    """
    return pipelines.CodeBuildOptions(
        build_environment=codebuild.BuildEnvironment(
            build_image=codebuild.LinuxBuildImage.STANDARD_7_0,
            compute_type=codebuild.ComputeType.SMALL,
            privileged=False,
        ),
        logging=codebuild.LoggingOptions(
            cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=log_group, enabled=True)
        ),
        partial_build_spec=codebuild.BuildSpec.from_object(
            {
                "version": "0.2",
                "env": {"shell": "bash"},
                "phases": {"install": {"runtime-versions": {"python": PYTHON, "nodejs": NODE}}},
            }
        ),
        timeout=Duration.minutes(_STEP_MINUTES),
    )


OLDER_MANIFESTS = """find . -name '*.assets.json' -exec sed -i 's/^  "version": "55[.]/  "version": "54./' {} +"""
"""cdk-assets 4.7.3 reads schema 54; the pinned aws-cdk-lib writes 55, in which an asset manifest is the same."""


def asset_publishing() -> pipelines.CodeBuildOptions:
    """What the publication of assets needs besides: manifests that its program reads.

    A test fails when the pinned versions can read each other: remove this then.
    """
    return pipelines.CodeBuildOptions(
        partial_build_spec=codebuild.BuildSpec.from_object(
            {
                "version": "0.2",
                "phases": {"pre_build": {"commands": [OLDER_MANIFESTS]}},
            }
        )
    )


def synth(source: pipelines.IFileSetProducer, role: iam.IRole, *, context: str) -> pipelines.CodeBuildStep:
    """Lint, tests with the goldens, then the assembly that every later action deploys or looks at.

    Args:
        context: the pipeline's file, as `-c pipeline=` takes it.
    """
    return pipelines.CodeBuildStep(
        "Synth",
        input=source,
        install_commands=["make setup"],
        commands=["make lint", "make test-fast", f"make synth PIPELINE={context}"],
        primary_output_directory=ASSEMBLY,
        role=role,
        build_environment=codebuild.BuildEnvironment(
            # Two workers of pytest, each with a Node process of the CDK, need more than 3 GB.
            compute_type=codebuild.ComputeType.MEDIUM
        ),
        timeout=Duration.minutes(_SYNTH_MINUTES),
    )


def preflight(
    source: pipelines.IFileSetProducer, environment: Environment, reference: str, role: iam.IRole
) -> pipelines.CodeBuildStep:
    """Whether the account can hold the environment. Fails if it cannot, or if the answer is unknown."""
    command = f".venv/bin/trainyard preflight {reference} --on aws --format markdown --output {REPORT}/preflight.md"
    return pipelines.CodeBuildStep(
        "Preflight",
        input=source,
        env=_target(environment, "preflight"),
        install_commands=["make setup-steps"],
        commands=[*_AS_TARGET, _reported(command, "preflight.md")],
        primary_output_directory=REPORT,
        role=role,
    )


def diff(
    source: pipelines.IFileSetProducer,
    assembly: pipelines.IFileSetProducer,
    environment: Environment,
    reference: str,
    role: iam.IRole,
) -> pipelines.CodeBuildStep:
    """The verdict on what the assembly would change: a report, and the variables that the gates read.

    It looks at the very files that are deployed afterwards, not at a synthesis of its own. Fails where there is no
    verdict.
    """
    command = f".venv/bin/trainyard gate {reference} --assembly {assembly_of(environment)} --output {REPORT}"
    return pipelines.CodeBuildStep(
        "Diff",
        input=source,
        additional_inputs={ASSEMBLY: assembly},
        env=_target(environment, "diff"),
        install_commands=["make setup-steps"],
        commands=[
            *_AS_TARGET,
            _reported(command, "verdict.md", "permissions.txt"),
            f"while IFS='=' read -r name value; do export \"$name=$value\"; done < {REPORT}/variables",
            'export REPORT_URL="$CODEBUILD_BUILD_URL"',
        ],
        primary_output_directory=REPORT,
        role=role,
    )


def validation(
    source: pipelines.IFileSetProducer, environment: Environment, reference: str, role: iam.IRole
) -> pipelines.CodeBuildStep:
    """Scans, hello-gpu, NCCL and storage checks on the cluster itself."""
    command = f".venv/bin/trainyard validate {reference} --on aws --format markdown --output {REPORT}/validation.md"
    return pipelines.CodeBuildStep(
        "Validation",
        input=source,
        env=_target(environment, "validation"),
        install_commands=["make setup-steps"],
        commands=[*_AS_TARGET, _reported(command, "validation.md")],
        primary_output_directory=REPORT,
        role=role,
        timeout=Duration.minutes(_VALIDATION_MINUTES),
    )


def assembly_of(environment: Environment) -> str:
    """Folder of the environment's stage in the assembly, from the top of the repository."""
    return f"{ASSEMBLY}/assembly-{environment.name}"


_AS_TARGET = (
    # From here on AWS is the environment's account: boto3 takes the profile's role with the build's own credentials.
    "export AWS_CONFIG_FILE=$PWD/.aws-target",
    "printf '[profile target]\\nrole_arn = %s\\nrole_session_name = %s\\ncredential_source = EcsContainer\\n' "
    '"$TARGET_ROLE" "$TARGET_NAME" > "$AWS_CONFIG_FILE"',
    'export AWS_PROFILE=target AWS_REGION="$TARGET_REGION" AWS_DEFAULT_REGION="$TARGET_REGION"',
)


def _target(environment: Environment, purpose: Purpose) -> Mapping[str, str]:
    return {
        "TARGET_NAME": f"promotion-{environment.name}",
        "TARGET_REGION": environment.region,
        "TARGET_ROLE": target_role_arn(environment, purpose),
    }


def _reported(command: str, *reports: str) -> str:
    """The command, and its reports in the log too, whatever its exit status, which is handed on."""
    shown = " ".join(f"{REPORT}/{report}" for report in reports)
    return f"(mkdir -p {REPORT}; {command} || status=$?; cat {shown} || true; exit ${{status:-0}})"
