"""The verdict as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from ops.review.permissions import not_counted_by_cdk
from ops.review.structure import shown
from ops.review.text import accepted
from ops.review.verdict import Level, Verdict, at_stake, label, meaning

LIMIT = 65_000
"""Characters; GitHub takes 65,536 in a comment."""

_SIGNS = {
    Level.NOTHING: "NOTE",
    Level.SAFE: "NOTE",
    Level.DISRUPTIVE: "WARNING",
    Level.DESTRUCTIVE: "CAUTION",
}
_ROWS = 60


def render(verdict: Verdict, cdk_diff: str = "") -> str:
    """Markdown, with the CDK CLI's own diff folded in at its end as far as there is room."""
    text = "\n".join(_lines(verdict)) + "\n"
    plain = cdk_diff.strip().replace("```", "'''")
    if plain:
        room = LIMIT - len(text) - 200
        cut = plain if len(plain) <= room else f"{plain[: max(room, 0)]}\n(cut; the whole is in the log of the run)"
        text += f"\n<details><summary><code>cdk diff</code></summary>\n\n```diff\n{cut}\n```\n\n</details>\n"
    return text


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"### `{verdict.environment}` against {verdict.against}"
    yield ""
    yield f"> [!{_SIGNS[verdict.level]}]"
    yield f"> **{_cell(verdict.headline)}**"
    if verdict.data:
        yield ""
        yield "| Data at stake | What happens | Because of |"
        yield "|---|---|---|"
        for change in verdict.data:
            yield f"| {_cell(label(change))} | {_cell(at_stake(change))} | {_code(', '.join(change.causes))} |"
    cluster = verdict.cluster
    if cluster.keys:
        yield ""
        yield f"**Cluster `{cluster.name}`.** {accepted(verdict)}"
        yield ""
        yield "| Key | Old | New | What it means | Policy |"
        yield "|---|---|---|---|---|"
        for key in cluster.keys[:_ROWS]:
            yield (
                f"| {_code(key.path)} | {_code(shown(key.old))} | {_code(shown(key.new))} | "
                f"{_cell(meaning(key, cluster))} | {key.policy} |"
            )
        if len(cluster.keys) > _ROWS:
            yield f"| and {len(cluster.keys) - _ROWS} more | | | | |"
    if granted := not_counted_by_cdk(verdict):
        yield ""
        yield "**Permissions** may be broadened by:"
        yield ""
        for line in granted[:_ROWS]:
            yield f"- {_code(line)}"
        if len(granted) > _ROWS:
            yield f"- and {len(granted) - _ROWS} more"
    if verdict.resources:
        yield ""
        yield f"<details><summary>{len(verdict.resources)} resources</summary>"
        yield ""
        yield "| Stack | Resource | What happens |"
        yield "|---|---|---|"
        for change in verdict.resources[: _ROWS * 2]:
            yield f"| {change.stack} | {_cell(label(change))} | {change.effect} |"
        if len(verdict.resources) > _ROWS * 2:
            yield f"| | and {len(verdict.resources) - _ROWS * 2} more | |"
        yield ""
        yield "</details>"
    if verdict.left_stacks:
        yield ""
        yield f"No longer made, and left as they are: {', '.join(verdict.left_stacks)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|')}`" if text else ""
