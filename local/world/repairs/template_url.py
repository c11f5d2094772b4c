"""TemplateURL of the form https://bucket.s3.region.amazonaws.com/key is read as bucket = first part of the path."""

from __future__ import annotations

import re
from typing import Any

from ministack.services.cloudformation import handlers, helpers

_VIRTUAL_HOST = re.compile(r"^https://(?P<bucket>[a-z0-9.-]+)\.s3[.-][a-z0-9.-]*amazonaws\.com/(?P<key>[^?]+)")


def install() -> None:
    """Rewrite such an address to the path form, which ministack reads right."""
    original = helpers._resolve_document

    def resolve(params: dict[str, Any], body_key: str, url_key: str, label: str) -> Any:
        url = helpers._p(params, url_key)
        found = _VIRTUAL_HOST.match(url or "")
        if found:
            params = {**params, url_key: [f"https://s3.amazonaws.com/{found['bucket']}/{found['key']}"]}
        return original(params, body_key, url_key, label)

    helpers._resolve_document = resolve
    if getattr(handlers, "_resolve_document", None) is original:
        handlers._resolve_document = resolve
