"""Lambda actions: the function gets a job, and ends it itself by PutJobSuccessResult or PutJobFailureResult."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from local.pipeline.definition import Action, Pipeline
from local.pipeline.problem import ActionFailed
from local.pipeline.roles import Session
from local.steering import Steer

TIMEOUT_S = 20 * 60
"""CodePipeline waits for a day; no function runs longer than a quarter of an hour."""
_POLL_S = 0.2


@dataclass(frozen=True)
class Invoker:
    """What the Lambda actions of a walk have in common."""

    pipeline: Pipeline
    steer: Steer

    def run(self, action: Action, configuration: Mapping[str, str], actor: Session) -> dict[str, str]:
        """Invoke the function and wait for what it says of its job: the variables that it sets.

        Raises:
            ActionFailed: it fails, cannot be invoked, or says nothing in time.
        """
        if action.inputs or action.outputs:
            raise ActionFailed("the local executor hands no artifacts to Lambda actions")
        job = str(self.steer.pipeline(self.pipeline.name, new_job="yes")["job"])
        event = {
            "CodePipeline.job": {
                "id": job,
                "accountId": self.pipeline.role_arn.split(":")[4],
                "data": {
                    "actionConfiguration": {"configuration": dict(configuration)},
                    "inputArtifacts": [],
                    "outputArtifacts": [],
                    "artifactCredentials": {"accessKeyId": "", "secretAccessKey": "", "sessionToken": ""},
                },
            }
        }
        try:
            actor.client("lambda").invoke(
                FunctionName=configuration["FunctionName"], InvocationType="Event", Payload=json.dumps(event).encode()
            )
        except ClientError as error:
            raise ActionFailed(str(error)) from error
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            said: dict[str, Any] = self.steer.pipeline(self.pipeline.name, job=job)
            if said["status"] == "Succeeded":
                return {key: str(item) for key, item in said.get("variables", {}).items()}
            if said["status"] == "Failed":
                raise ActionFailed(said.get("message") or "the function says that its job failed")
            time.sleep(_POLL_S)
        raise ActionFailed(f"{configuration['FunctionName']} said nothing of its job in {TIMEOUT_S / 60:.0f} minutes")
