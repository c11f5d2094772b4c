"""The stand-in for the public template of the ParallelCluster API.

The genuine one lies at https://<region>-aws-parallelcluster.s3.<region>.amazonaws.com/parallelcluster/<version>/api/
parallelcluster-api.yaml and cannot be used here: it runs the API from a container image in Lambda. This one stands
at the same address in the world's S3, takes the same parameters and gives the same outputs. Between the caller and
the API stands a REST API of API Gateway with the same authorization: AWS_IAM on every method, and a resource policy
that denies everyone but the API user role. Behind it, instead of the Lambda, runs the genuine API code on loopback.
"""

from __future__ import annotations

import json
from typing import Any

from ministack.core.responses import get_region
from ministack.services import s3

STAGE = "prod"


def _parameter(default: str, description: str, allowed: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"Type": "String", "Default": default, "Description": description,
            **({"AllowedValues": list(allowed)} if allowed else {})}


def template(version: str, api_url: str, gateway_url: str) -> dict[str, Any]:
    """The template for a ParallelCluster version in front of the API that listens at `api_url`."""
    booleans = ("true", "false")
    suffix = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    user_role = {"Fn::Sub": ["ParallelClusterApiUserRole-${Suffix}", {"Suffix": suffix}]}
    foreign = {"Fn::Sub": ["arn:${AWS::Partition}:*::${AWS::AccountId}:*/ParallelClusterApiUserRole-${Suffix}*", {"Suffix": suffix}]}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Stand-in for the template of the ParallelCluster API {version}",
        "Parameters": {
            "Region": _parameter("*", "Region that the API may control, or * for all"),
            "ParallelClusterFunctionRole": _parameter("", "Execution role of the API's function, when it exists already"),
            "ApiDefinitionS3Uri": _parameter("", "S3 address of the API's definition"),
            "PoliciesTemplateUri": _parameter("", "Address of the template with the API's policies"),
            "CustomDomainName": _parameter("", "Domain name of the API"),
            "CustomDomainCertificate": _parameter("", "Certificate of the domain name"),
            "CustomDomainHostedZoneId": _parameter("", "Hosted zone of the domain name"),
            "VpcEndpointId": _parameter("", "Interface endpoint of a private API"),
            "EnableIamAdminAccess": _parameter("false", "Whether the API may make roles", booleans),
            "EnableFSxS3Access": _parameter("false", "Whether the API may tie FSx to S3", booleans),
            "FsxS3Buckets": _parameter("", "Buckets that FSx may be tied to"),
            "PermissionsBoundaryPolicy": _parameter("", "Boundary of every role that the API makes"),
            "PermissionsBoundaryPolicyPCAPI": _parameter("", "Boundary of the API's own roles"),
            "CreateApiUserRole": _parameter("true", "Whether to make the role that alone may call", booleans),
            "IAMRoleAndPolicyPrefix": _parameter("", "Prefix of the names of roles and policies"),
        },
        "Conditions": {
            "CreatesUserRole": {"Fn::Equals": [{"Ref": "CreateApiUserRole"}, "true"]},
            "CreatesFunctionRole": {"Fn::Equals": [{"Ref": "ParallelClusterFunctionRole"}, ""]},
        },
        "Resources": {
            "ParallelClusterUserRole": {
                "Type": "AWS::IAM::Role", "Condition": "CreatesFunctionRole",
                "Properties": {
                    "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [
                        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}]},
                },
            },
            "ParallelClusterFunctionLogGroup": {
                "Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 30},
            },
            "Api": {
                "Type": "AWS::ApiGateway::RestApi",
                "Properties": {
                    "Name": "ParallelCluster",
                    "Policy": {"Version": "2012-10-17", "Statement": [
                        {"Effect": "Allow", "Principal": "*", "Action": "execute-api:Invoke", "Resource": "execute-api:/*/*/*"},
                        {"Effect": "Deny", "Principal": "*", "Action": "execute-api:Invoke", "Resource": "execute-api:/*/*/*",
                         "Condition": {"StringNotLike": {"aws:PrincipalArn": {"Fn::If": ["CreatesUserRole", foreign, "*"]}}}},
                    ]},
                },
            },
            "Proxy": {
                "Type": "AWS::ApiGateway::Resource",
                "Properties": {"RestApiId": {"Ref": "Api"}, "ParentId": {"Fn::GetAtt": ["Api", "RootResourceId"]},
                               "PathPart": "{proxy+}"},
            },
            "AnyMethod": {
                "Type": "AWS::ApiGateway::Method",
                "Properties": {
                    "RestApiId": {"Ref": "Api"}, "ResourceId": {"Ref": "Proxy"}, "HttpMethod": "ANY",
                    "AuthorizationType": "AWS_IAM", "RequestParameters": {"method.request.path.proxy": True},
                    "Integration": {
                        "Type": "HTTP_PROXY", "IntegrationHttpMethod": "ANY", "Uri": f"{api_url}/{{proxy}}",
                        "RequestParameters": {"integration.request.path.proxy": "method.request.path.proxy"},
                    },
                },
            },
            "Deployment": {
                "Type": "AWS::ApiGateway::Deployment", "DependsOn": "AnyMethod",
                "Properties": {"RestApiId": {"Ref": "Api"}},
            },
            "Stage": {
                "Type": "AWS::ApiGateway::Stage",
                "Properties": {"RestApiId": {"Ref": "Api"}, "DeploymentId": {"Ref": "Deployment"}, "StageName": STAGE},
            },
            "ParallelClusterApiUserRole": {
                "Type": "AWS::IAM::Role", "Condition": "CreatesUserRole",
                "Properties": {
                    "RoleName": user_role,
                    "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [
                        {"Effect": "Allow", "Action": "sts:AssumeRole",
                         "Principal": {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}}}]},
                    "Policies": [{
                        "PolicyName": "ParallelClusterApiInvokePolicy",
                        "PolicyDocument": {"Version": "2012-10-17", "Statement": [
                            {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": {
                                "Fn::Sub": "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*/*/*"}}]},
                    }],
                },
            },
        },
        "Outputs": {
            "ParallelClusterLambdaArn": {
                "Description": "ARN of the function that AWS would run; here the API runs on loopback",
                "Value": {"Fn::Sub": "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:ParallelClusterFunction"},
            },
            "ParallelClusterLambdaLogGroup": {"Value": {"Ref": "ParallelClusterFunctionLogGroup"}},
            "ParallelClusterApiInvokeUrl": {
                "Description": "Address of the API",
                "Value": {"Fn::Sub": f"{gateway_url}/_aws/execute-api/${{Api}}/{STAGE}"},
            },
            "ParallelClusterApiUserRole": {
                "Condition": "CreatesUserRole", "Description": "Role that may call the API",
                "Value": {"Fn::GetAtt": ["ParallelClusterApiUserRole", "Arn"]},
            },
        },
    }


def install(version: str, api_url: str, gateway_url: str) -> None:
    """Put the template where the public one is, in the current region."""
    bucket = f"{get_region()}-aws-parallelcluster"
    key = f"parallelcluster/{version}/api/parallelcluster-api.yaml"
    body = json.dumps(template(version, api_url, gateway_url), indent=1).encode()
    s3._create_bucket(bucket, b"")
    s3._put_object(bucket, key, body, {"content-type": "application/x-yaml"})
