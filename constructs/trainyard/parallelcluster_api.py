"""The ParallelCluster API: a nested stack from AWS's public template, or an existing API."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model.cluster import Api
from trainyard.parallelcluster import api_template_url, version


class ParallelClusterApi(Construct):
    """An API of the pinned version that creates clusters in one region.

    A new API is the unchanged public template as a nested stack. `EnableIamAdminAccess` allows it to create the roles
    of clusters: only under the path /parallelcluster/, with the AWS policies that its template lists and with our
    policies whose ARN contains `policy/parallelcluster`. With `CreateApiUserRole`, API Gateway accepts calls of that
    role only.

    Args:
        existing: use this API instead.
        permissions_boundary: ARN of the managed policy that limits the API's role and every role that it creates;
            a policy without a path, because the template's parameter accepts no other (facts: api.json).

    Attributes:
        url: invoke URL, ending in the stage (/prod).
        user_role_arn: the role that callers assume.
        version: the ParallelCluster version.
    """

    url: str
    user_role_arn: str
    version: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        region: str,
        existing: Api | None = None,
        permissions_boundary: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.version = version()
        if existing is not None:
            self.url, self.user_role_arn = existing.url.rstrip("/"), existing.user_role_arn
            return
        parameters = {"Region": region, "EnableIamAdminAccess": "true", "CreateApiUserRole": "true"}
        if permissions_boundary:
            parameters["PermissionsBoundaryPolicy"] = permissions_boundary
        stack = cdk.CfnStack(self, "Stack", template_url=api_template_url(region), parameters=parameters)
        self.url = stack.get_att("Outputs.ParallelClusterApiInvokeUrl").to_string()
        self.user_role_arn = stack.get_att("Outputs.ParallelClusterApiUserRole").to_string()
