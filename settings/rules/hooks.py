"""Scripts of the user's own that nodes run. The loader has read them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.cluster import Hook
from settings.rules.items import Finding, Items, clashes, for_each, listed


def _hooks(environment: Environment) -> Items[Hook]:
    return listed(("cluster", "hooks"), environment.cluster.hooks)


@for_each(_hooks)
def runs(environment: Environment, key: KeyPath, hook: Hook) -> Iterator[Finding]:
    """The environment has nodes of the role; the script can be read, can run, and is the one that was pinned."""
    content, at = hook.content, (*key, "script")
    if hook.role == "login-configured" and environment.cluster.login_nodes is None:
        given, allowed = f"{hook.role}, but no login nodes", "head-configured, compute-start or compute-configured"
        yield Finding((*key, "role"), given, allowed, "use one of these, or add cluster.login_nodes")
    if content is None:
        allowed = "a file that can be read, relative to the environment file's folder"
        yield Finding(at, f"{hook.script}, which cannot be read", allowed)
    elif not content.startswith(b"#!"):
        advice = "name its interpreter in the first line: #!/usr/bin/env bash"
        yield Finding(at, f"{hook.script}, which does not begin with #!", "a script", advice)
    elif b"\r\n" in content:
        yield Finding(at, f"{hook.script}, which has CRLF line ends", "LF line ends", "convert it, then pin the result")
    elif (found := hashlib.sha256(content).hexdigest()) != hook.sha256:
        advice = "the script changed after it was pinned: review it, then put its checksum here"
        yield Finding((*key, "sha256"), hook.sha256, f"the checksum of {hook.script}, {found}", advice)


def once(environment: Environment) -> Iterator[Finding]:
    """A script runs once at each moment."""
    moments = ((key, (hook.role, hook.when, hook.sha256)) for key, hook in _hooks(environment))
    for key, (role, when, _), before, _ in clashes(moments, lambda one, other: one[1] == other[1]):
        given = f"the script of {key_text(before)} again {when} {role}"
        yield Finding(key, given, "each script once before and once after a role", "remove one of them")


RULES = (runs, once)
