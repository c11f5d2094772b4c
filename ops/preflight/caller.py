"""Compares account and partition of the credentials with those of the environment file."""

from __future__ import annotations

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from ops.preflight.aws import Denied, Reader, code_of
from ops.problem import Problem
from settings import Environment

_NOT_ENABLED = ("InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure")


def require(aws: Reader, session: boto3.Session, environment: Environment) -> None:
    """Return if the credentials belong to the file's account and are valid in its region.

    Raises:
        Problem: there are no credentials, AWS refuses them, or they belong to another account or partition.
    """
    try:
        caller = aws.call("sts", "get_caller_identity")
    except BotoCoreError as error:
        raise Problem(
            f"AWS cannot be reached: {error}.\nThe preflight uses the credentials of your shell, as the AWS CLI does. "
            f"Set a profile or keys of account {environment.account}. To see them: aws sts get-caller-identity"
        ) from error
    except ClientError as error:
        hint = (
            f"They are wrong or expired, or {environment.region} is not enabled in the account."
            if code_of(error) in _NOT_ENABLED
            else "They are expired or not valid."
        )
        raise Problem(f"AWS refuses your credentials: {error}.\n{hint}") from error
    except Denied as error:
        raise Problem(f"AWS refuses your credentials: {error}.") from error
    if caller["Account"] != environment.account:
        raise Problem(
            f"Your credentials belong to account {caller['Account']}; the environment {environment.name} is in account "
            f"{environment.account}.\nUse credentials of that account, or correct `account` in the file."
        )
    partition = str(caller["Arn"]).split(":")[1]
    try:
        wanted = session.get_partition_for_region(environment.region)
    except BotoCoreError as error:
        raise Problem(f"boto3 does not know the region {environment.region}. Correct `region` in the file.") from error
    if partition != wanted:
        raise Problem(
            f"Your credentials belong to the partition {partition}; {environment.region} is in {wanted}.\n"
            "Use credentials of that partition, or correct `region` in the file."
        )
