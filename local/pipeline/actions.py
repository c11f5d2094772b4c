"""Carries out the actions of a pipeline under their roles: steps, deployments and approvals."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import ClientError, WaiterError

from local.commands.cdk import environment_for
from local.commands.session import ROOT
from local.pipeline.definition import Action, ActionFailed, Pipeline, session_with
from local.pipeline.prerequisites import python_path
from pipeline_approval.handler import Request

_INSTALLED = "npm install -g"
"""Commands of steps that begin so are left out: `make setup` has installed these programs."""
_WAIT = {"Delay": 1, "MaxAttempts": 45 * 60}


class ApprovalNeeded(Exception):
    """A person must decide; the message is the question."""


def run_step(pipeline: Pipeline, action: Action, configuration: dict[str, str]) -> dict[str, str]:
    """Run the commands of a CodeBuild step with its project's role; return its exported variables."""
    name = configuration["ProjectName"]
    pipeline.session(action.role_arn).client("codebuild").start_build(projectName=name)
    root = session_with(pipeline.emulator.account, "local", None, pipeline.emulator.region)
    project: Any = root.client("codebuild").batch_get_projects(names=[name])["projects"][0]
    folder = pipeline.state / "steps" / action.key
    shutil.rmtree(folder, ignore_errors=True)
    source, log = folder / "src", folder / "log"
    shutil.copytree(pipeline.artifact(configuration.get("PrimarySource", action.inputs[0])), source, symlinks=True)
    buildspec = project["source"]["buildspec"]
    spec = yaml.safe_load(buildspec if "\n" in buildspec else (source / buildspec).read_text())
    environment = {
        **{item["name"]: item["value"] for item in project["environment"].get("environmentVariables", [])},
        **{f"CODEBUILD_SRC_DIR_{name}": str(pipeline.artifact(name)) for name in action.inputs},
        "CODEBUILD_SRC_DIR": str(source),
        "CODEBUILD_BUILD_URL": log.as_uri(),
        "PYTHONPATH": python_path(pipeline.state / "source"),
        "PATH": f"{ROOT}/node_modules/.bin:{ROOT}/local/node_modules/.bin:{os.environ['PATH']}",
    }
    try:
        with _credentials(
            pipeline.service_session(project["serviceRole"], "codebuild", f"project/{name}"), folder
        ) as uri:
            environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = uri
            status = _run_commands(pipeline, spec, log, environment, 60 * project["timeoutInMinutes"])
        if status:
            raise ActionFailed(f"a command ended with exit status {status}; see {log}")
    finally:
        made = source / spec.get("artifacts", {}).get("base-directory", "")
        if action.outputs and made.is_dir():
            shutil.copytree(made, pipeline.artifact(action.outputs[0]), symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(source)
    variables = dict(item.split("=", 1) for item in (folder / "variables").read_text().split("\0") if item)
    return {key: variables[key] for key in spec.get("env", {}).get("exported-variables", [])}


def _run_commands(pipeline: Pipeline, spec: dict[str, Any], log: Path, settings: dict[str, str], limit_s: float) -> int:
    lines = ["trap 'env -0 > \"$CODEBUILD_SRC_DIR/../variables\"' EXIT"]
    for phase in ("install", "pre_build", "build", "post_build"):
        for command in spec["phases"].get(phase, {}).get("commands", []):
            left_out = command in pipeline.skip or command.startswith(_INSTALLED)
            lines.append(f"echo {shlex.quote(f'Left out: {command}')}" if left_out else command)
    script = log.with_name("commands.sh")
    script.write_text("\n".join(lines) + "\n")
    environment = environment_for({**pipeline.emulator.env(), **settings})
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):  # those of the role come from the URI
        del environment[key]
    line, source = ["bash", "-ev", str(script)], log.with_name("src")
    with (
        log.open("w") as out,
        subprocess.Popen(line, cwd=source, env=environment, stdout=out, stderr=out, start_new_session=True) as process,
    ):
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired as late:
            raise ActionFailed(f"it took more than {limit_s / 60:.0f} minutes; see {log}") from late
        finally:  # also after Ctrl-C, which reaches this process only
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _credentials(session: boto3.Session, folder: Path) -> Iterator[str]:
    """Serve credentials as a build container does; yield the URI."""
    keys: Any = session.get_credentials()
    given = {"AccessKeyId": keys.access_key, "SecretAccessKey": keys.secret_key, "Token": keys.token}
    (folder / "credentials").write_text(json.dumps({**given, "Expiration": "2099-01-01T00:00:00Z"}))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/credentials"
        server.shutdown()


def deploy(pipeline: Pipeline, action: Action, configuration: dict[str, str]) -> None:
    """Create or execute a change set with the bootstrap's deploy role of the target account."""
    client: Any = pipeline.session(action.role_arn).client("cloudformation")
    stack = configuration["StackName"]
    names = {"StackName": stack, "ChangeSetName": configuration["ChangeSetName"]}
    try:
        status = client.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        status = ""
    new = status in ("", "REVIEW_IN_PROGRESS")
    if configuration["ActionMode"] == "CHANGE_SET_REPLACE":
        if status:
            client.delete_change_set(**names)
        waiter = "change_set_create_complete"
        _create_change_set(pipeline, client, names, configuration, "CREATE" if new else "UPDATE")
    elif client.describe_change_set(**names)["Status"] == "FAILED":  # without changes: any other failure ended Prepare
        client.delete_change_set(**names)
        return
    else:
        client.execute_change_set(**names)
        waiter, names = f"stack_{'create' if new else 'update'}_complete", {"StackName": stack}
    try:
        client.get_waiter(waiter).wait(**names, WaiterConfig=_WAIT)
    except WaiterError as error:
        reason = str(error.last_response.get("StatusReason", ""))
        if "didn't contain changes" not in reason:
            events = client.describe_stack_events(StackName=stack)["StackEvents"]
            failed = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
            reasons = [f"{item['LogicalResourceId']}: {item.get('ResourceStatusReason', '')}" for item in failed]
            raise ActionFailed(f"{stack}: {'; '.join([reason, *reasons[::-1][:3]])}") from error


def _create_change_set(
    pipeline: Pipeline,
    client: Any,  # noqa: ANN401 - a boto3 client
    names: dict[str, str],
    configuration: dict[str, str],
    kind: str,
) -> None:
    template = pipeline.artifact(configuration["TemplatePath"].replace("::", "/"))
    settings = json.loads(pipeline.artifact(configuration["TemplateConfiguration"].replace("::", "/")).read_text())
    key = f"{pipeline.name}/{template.name}"
    pipeline.session().client("s3").put_object(Bucket=pipeline.bucket, Key=key, Body=template.read_bytes())
    client.create_change_set(
        **names,
        ChangeSetType=kind,
        TemplateURL=f"https://{pipeline.bucket}.s3.{pipeline.emulator.region}.amazonaws.com/{key}",
        Capabilities=configuration["Capabilities"].split(","),
        RoleARN=configuration["RoleArn"],
        Tags=[{"Key": name, "Value": value} for name, value in settings["Tags"].items()],
    )


def decide(pipeline: Pipeline, action: Action, configuration: dict[str, str]) -> None:
    """Decide an approval as the pipeline's approval function does, which the action's role must be able to invoke."""
    client = pipeline.session(action.role_arn).client("lambda")
    client.invoke(FunctionName=configuration["FunctionName"], InvocationType="DryRun")
    request = Request.read({"data": {"actionConfiguration": {"configuration": configuration}}})
    if request.passed:
        pipeline.approved.add(f"{request.stage}/{request.action}")


def approve(pipeline: Pipeline, action: Action, configuration: dict[str, str]) -> None:
    """Pass an approval that is given; otherwise raise ApprovalNeeded."""
    if action.key not in pipeline.approved:
        raise ApprovalNeeded(configuration["CustomData"])
