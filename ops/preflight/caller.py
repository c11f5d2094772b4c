"""Who asks: the account and the partition that the credentials belong to, against those of the file."""

from __future__ import annotations

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from ops.preflight.aws import Denied, Reader, code_of
from ops.problem import Problem
from settings import Environment

_NOT_ENABLED = ("InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure")


def require(aws: Reader, session: boto3.Session, environment: Environment) -> None:
    """Return if the credentials are of the file's account and can be used in its region.

    Raises:
        Problem: there are none, they are refused, or they are another account's or another partition's.
    """
    try:
        caller = aws.call("sts", "get_caller_identity")
    except BotoCoreError as error:
        raise Problem(
            f"AWS cannot be asked: {error}.\nThis asks with the credentials of your shell, as the AWS CLI does. Set a "
            f"profile or keys of account {environment.account}; `aws sts get-caller-identity` shows who you are."
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
            f"Your credentials are of account {caller['Account']}; the environment {environment.name} is of account "
            f"{environment.account}.\nTake credentials of that account, or correct `account` in the file."
        )
    partition = str(caller["Arn"]).split(":")[1]
    try:
        wanted = session.get_partition_for_region(environment.region)
    except BotoCoreError as error:
        raise Problem(f"{environment.region} is no region that boto3 knows. Correct `region` in the file.") from error
    if partition != wanted:
        raise Problem(
            f"Your credentials are of the partition {partition}; {environment.region} lies in {wanted}.\n"
            "Take credentials of that partition, or correct `region` in the file."
        )
