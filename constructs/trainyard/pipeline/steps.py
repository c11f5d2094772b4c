"""The CodeBuild steps of a pipeline. Each is a few lines of shell around a command that also runs on a laptop.

No build is privileged and none needs Docker: functions are copied (docs/decisions/0003-bundling-without-docker.md).
Nothing is cached between builds: builds of every commit would write the cache, and builds that deploy would read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration, pipelines
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs

from settings.model import Environment
from settings.pipeline import Target
from trainyard.pipeline.names import Purpose, target_role_arn

CDK_CLI = "2.1148.1"
"""As in package.json; a test compares. Version 3.0.0 refuses the assembly of the pinned aws-cdk-lib."""
CDK_ASSETS = "4.7.3"
ASSEMBLY = "cdk.out"
REPORT = "report"
SAFE = ("nothing", "safe")
"""Levels of a verdict that need no approval."""

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
                "phases": {"install": {"runtime-versions": {"python": "3.11", "nodejs": "22"}}},
            }
        ),
        timeout=Duration.minutes(30),
    )


OLDER_MANIFESTS = """find . -name '*.assets.json' -exec sed -i 's/^  "version": "55[.]/  "version": "54./' {} +"""
"""cdk-assets 4.7.3 reads schema 54; the pinned aws-cdk-lib writes 55, in which an asset manifest is the same."""


def asset_publishing() -> pipelines.CodeBuildOptions:
    """Options that convert asset manifests to the schema that cdk-assets reads.

    A test fails when the pinned versions can read each other: remove this then.
    """
    spec = {"version": "0.2", "phases": {"pre_build": {"commands": [OLDER_MANIFESTS]}}}
    return pipelines.CodeBuildOptions(partial_build_spec=codebuild.BuildSpec.from_object(spec))


def synth(source: pipelines.IFileSetProducer, role: iam.IRole, *, context: str) -> pipelines.CodeBuildStep:
    """Lint, tests with the goldens, then the assembly that every later action deploys or looks at."""
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
        timeout=Duration.minutes(60),
    )


def preflight(source: pipelines.IFileSetProducer, target: Target, role: iam.IRole) -> pipelines.CodeBuildStep:
    """Whether the account can hold the environment. Fails if it cannot, or if the answer is unknown."""
    command = f"preflight {target.reference} --on aws --format markdown --output {REPORT}/preflight.md"
    return _step("preflight", source, target.environment, role, commands=[_reported(command, "preflight.md")])


def diff(
    source: pipelines.IFileSetProducer, assembly: pipelines.IFileSetProducer, target: Target, role: iam.IRole
) -> pipelines.CodeBuildStep:
    """The verdict on what the assembly would change: a report, and the variables that the gates read.

    It looks at the very files that are deployed afterwards, not at a synthesis of its own. Fails where there is no
    verdict.
    """
    environment = target.environment
    folder = f"{ASSEMBLY}/assembly-{environment.name}"
    commands = [
        _reported(f"gate {target.reference} --assembly {folder} --output {REPORT}", "verdict.md", "permissions.txt"),
        f"while IFS='=' read -r name value; do export \"$name=$value\"; done < {REPORT}/variables",
        'export REPORT_URL="$CODEBUILD_BUILD_URL"',
    ]
    return _step("diff", source, environment, role, commands=commands, inputs={ASSEMBLY: assembly})


def validation(source: pipelines.IFileSetProducer, target: Target, role: iam.IRole) -> pipelines.CodeBuildStep:
    """Scans, hello-gpu, NCCL and storage checks on the cluster itself."""
    command = f"validate {target.reference} --on aws --format markdown --output {REPORT}/validation.md"
    commands = [_reported(command, "validation.md")]
    return _step("validation", source, target.environment, role, commands=commands, minutes=_VALIDATION_MINUTES)


def _step(
    purpose: Purpose,
    source: pipelines.IFileSetProducer,
    environment: Environment,
    role: iam.IRole,
    *,
    commands: Sequence[str],
    inputs: Mapping[str, pipelines.IFileSetProducer] | None = None,
    minutes: int | None = None,
) -> pipelines.CodeBuildStep:
    return pipelines.CodeBuildStep(
        purpose.capitalize(),
        input=source,
        additional_inputs=inputs,
        env={
            "TARGET_NAME": f"promotion-{environment.name}",
            "TARGET_REGION": environment.region,
            "TARGET_ROLE": target_role_arn(environment, purpose),
        },
        install_commands=["make setup-steps"],
        commands=[*_AS_TARGET, *commands],
        primary_output_directory=REPORT,
        role=role,
        timeout=Duration.minutes(minutes) if minutes else None,
    )


_AS_TARGET = (
    # From here on AWS is the environment's account: boto3 takes the profile's role with the build's own credentials.
    "export AWS_CONFIG_FILE=$PWD/.aws-target",
    "printf '[profile target]\\nrole_arn = %s\\nrole_session_name = %s\\ncredential_source = EcsContainer\\n' "
    '"$TARGET_ROLE" "$TARGET_NAME" > "$AWS_CONFIG_FILE"',
    'export AWS_PROFILE=target AWS_REGION="$TARGET_REGION" AWS_DEFAULT_REGION="$TARGET_REGION"',
)


def _reported(command: str, *reports: str) -> str:
    """A command of trainyard, and its reports in the log too; the exit status is the command's."""
    shown = " ".join(f"{REPORT}/{report}" for report in reports)
    run = f".venv/bin/trainyard {command} || status=$?"
    return f"(mkdir -p {REPORT}; {run}; cat {shown} || true; exit ${{status:-0}})"
