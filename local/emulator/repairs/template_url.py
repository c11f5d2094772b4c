"""TemplateURL of the form https://bucket.s3.region.amazonaws.com/key is read as bucket = first part of the path.

And a template in another account's bucket is not found. Whether that account lets the caller read it is not asked here.
"""

from __future__ import annotations

import re
from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.services import s3
from ministack.services.cloudformation import handlers, helpers

_VIRTUAL_HOST = re.compile(r"^https://(?P<bucket>[a-z0-9.-]+)\.s3[.-][a-z0-9.-]*amazonaws\.com/(?P<key>[^?]+)")


def install() -> None:
    """Rewrite such an address to the path form, which ministack reads right, and look in the account of the bucket."""
    original = helpers._resolve_document

    def resolve(params: dict[str, Any], body_key: str, url_key: str, label: str) -> Any:
        url = helpers._p(params, url_key)
        found = _VIRTUAL_HOST.match(url or "")
        if found:
            params = {**params, url_key: [f"https://s3.amazonaws.com/{found['bucket']}/{found['key']}"]}
            with request_scope(s3._bucket_owner_account(found["bucket"]) or get_account_id(), get_region()):
                return original(params, body_key, url_key, label)
        return original(params, body_key, url_key, label)

    helpers._resolve_document = resolve
    if getattr(handlers, "_resolve_document", None) is original:
        handlers._resolve_document = resolve
