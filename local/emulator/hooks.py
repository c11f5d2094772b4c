"""The names inside ministack that this emulator hooks into.

ministack has no extension interface, so the emulator reaches for private names. All of them stand in this one
table and are checked at start: another release of ministack is refused with a sentence that says what is
missing, instead of failing somewhere in the middle of a deployment.
"""

from __future__ import annotations

import importlib
import importlib.metadata

WRITTEN_FOR = "1.5.33"

PRIVATE_NAMES: dict[str, tuple[str, ...]] = {
    "ministack.app": ("SERVICE_HANDLERS", "_resolve_port", "app", "main"),
    "ministack.core.iam_actions": ("SERVICE_TO_IAM_NAMESPACE", "extract_resource_arn"),
    "ministack.core.iam_evaluator": (
        "EvalContext",
        "_is_root_key",
        "_resolve_condition_key",
        "enforce",
        "evaluate_resource_policy",
    ),
    "ministack.core.responses": ("AccountRegionScopedDict", "get_account_id", "get_region", "request_scope"),
    "ministack.core.lambda_runtime": ("_lock", "_workers"),
    "ministack.core.router": ("SERVICE_PATTERNS",),
    "ministack.services.cloudformation": ("_exports", "_stacks"),
    "ministack.services.cloudformation.changesets": ("_deploy_stack_async", "_diff_resources"),
    "ministack.services.cloudformation.drift": ("_DRIFT_READERS",),
    "ministack.services.cloudformation.engine": ("_extract_deps", "_topological_sort"),
    "ministack.services.cloudformation.helpers": ("_p", "_resolve_document"),
    "ministack.services.cloudformation.provisioners": (
        "_REPLACING_PROPERTIES",
        "_RESOURCE_HANDLERS",
        "_STACK_TAG_PROPERTY",
        "_physical_name",
        "_provision_resource",
        "_replace_resource",
    ),
    "ministack.services.cloudformation.custom_resource": (
        "_response_url",
        "deliver_response",
        "invoke_custom_resource",
        "register_token",
    ),
    "ministack.services.cloudformation.handlers": (
        "_delete_stack_async",
        "_deploy_stack_async",
        "_imported_export_names",
        "_roll_back_operation",
    ),
    "ministack.services.cloudformation.stacks": (
        "_delete_resource",
        "_delete_stack_async",
        "_deploy_stack_async",
        "_resolve_stack_outputs",
        "_roll_back_operation",
        "_topological_sort",
    ),
    "ministack.services.cloudformation.wait_conditions": (
        "_waiting",
        "deliver_signal",
        "has_handle",
        "register_handle",
        "wait_for",
    ),
    "ministack.services.ec2": (
        "_ACTION_MAP",
        "_az_id_for_zone_name",
        "_ensure_defaults_initialized",
        "_error",
        "_addresses",
        "_instance_xml",
        "_flow_logs",
        "_instances",
        "_internet_gateways",
        "_launch_instances_internal",
        "_launch_templates",
        "_nat_gateways",
        "_network_interfaces",
        "_p",
        "_parse_tag_specs",
        "_resolve_iam_instance_profile",
        "_route_tables",
        "_security_groups",
        "_subnets",
        "_tags",
        "_vpc_endpoints",
        "_vpcs",
        "_zone_name_for_az_id",
    ),
    "ministack.services.apigateway_v1": ("rest_api_policy_for_arn",),
    "ministack.services.iam": (
        "_aws_managed_policies",
        "_instance_profiles",
        "_make_aws_managed_record",
        "_policies",
        "_roles",
    ),
    "ministack.services.s3": (
        "_bucket_owner_account",
        "_bucket_policies",
        "_bucket_tags",
        "_buckets",
        "_create_bucket",
        "_delete_bucket_encryption",
        "_delete_bucket_lifecycle",
        "_get_bucket_encryption",
        "_get_bucket_lifecycle",
        "_get_public_access_block",
        "_put_bucket_encryption",
        "_put_bucket_lifecycle",
        "_put_object",
        "_resolve_sse_write_headers",
    ),
    "ministack.services.sts": ("_gen_secret", "_gen_session_access_key", "_gen_session_token", "register_session"),
    "ministack.services.ssm": ("_put_parameter",),
    "ministack.services.tagging": ("resource_tags",),
}


class HookError(RuntimeError):
    """ministack is not the release that this emulator was written for."""


def check() -> None:
    """Raise HookError unless every private name exists in the installed ministack."""
    missing = []
    for module_name, names in PRIVATE_NAMES.items():
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            missing.append(module_name)
            continue
        missing += [f"{module_name}.{name}" for name in names if not hasattr(module, name)]
    if missing:
        found = importlib.metadata.version("ministack")
        raise HookError(
            f"ministack {found} lacks {', '.join(missing)}. The emulator is written for ministack {WRITTEN_FOR}: "
            "install that version (local/uv.lock pins it) or adapt local/emulator/hooks.py and its users."
        )
