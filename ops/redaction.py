"""Secrets in text: found by their form or by the name before them, and replaced by their kind."""

from __future__ import annotations

import re
from collections import Counter

# Slurm's StoragePass and JobCompPass, db_pass and MYSQL_PWD, but not bypass, passed, first_passes and PWD.
_ENDS = "(?:storage|jobcomp|_)pass(?![a-z])|_pwd(?![a-z])"
_WORDS = f"{_ENDS}|passw(?:or)?d|passphrase|secret|token(?!s|iz)|(?:api|access|private)[_-]?key|credential|cookie"
# Atomic: a long word that has these words many times would take the square of its length.
_NAME = rf"(?>[\w.-]*?(?:{_WORDS})[\w.-]*)"
_VALUE = "|".join(
    (
        r"\\+\"(?:[^\"\\\n]|\\{2,}[^\\\n])*\\?\"?",  # JSON in a string
        r"\"(?:[^\"\\\n]|\\.)*\"",
        r"'[^'\n]*'",
        r"[|>][+-]?[ \t]*(?:\n[ \t]+[^\n]*)+",  # a block of YAML
        r"[^\s,;&\"'}]+",
        r"[\"']\S*",  # cut off before its end
    )
)
_LEFT_OUT = r"(?!\[[\w -]+ left out\])"
_WEBHOOKS = (
    r"hooks\.slack(?:-gov)?\.com|discord(?:app)?\.com/api/webhooks|[\w.-]+\.(?:webhook\.office|logic\.azure)\.com"
)
_RULES: tuple[tuple[str, str], ...] = (
    # A key in a log is spread over lines with times between; one whose end was cut off goes to the limit.
    (
        "private key",
        r"-----BEGIN [^-\n]*PRIVATE KEY-----(?:[\s\S]{0,20000}?-----END [^-\n]*PRIVATE KEY-----|[\s\S]{0,8000})",
    ),
    ("JSON web token", r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    ("authorization", r"(?i)(?<=authorization)[\"']?\s*[:=]\s*[\"']?[^\n\"']+"),
    ("authorization", r"(?i)\bbearer\s+[\w.~+/=-]{8,}"),
    ("signed URL", r"(?i)(?<=[?&])(?:x-amz-(?:signature|credential|security-token)|signature|sig)=[^\s&\"'<>]+"),
    ("webhook", rf"https://(?:(?:{_WEBHOOKS})[^\s\"'<>]*|[\w.:-]+/hooks/[a-z0-9]{{8,}})"),
    ("access token", r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|nvapi-|sk-)[\w-]{16,}"),
    ("access key id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    # As ~/.netrc, Enroot's .credentials and Docker's config.json have them.
    ("login", r"(?i)\blogin\s+\S+\s+password\s+\S+|\"auth\"\s*:\s*\"[^\"\n]+\""),
    ("login in a URL", r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),
    ("named secret", rf"(?i)(?:(?<=\")|(?<=')|(?<![\w.-])){_NAME}\\*[\"']?\s*[:=]\s*{_LEFT_OUT}(?:{_VALUE})"),
    ("named secret", rf"(?i)(?<![\w.-])--{_NAME}\s+(?:{_VALUE})"),
    ("e-mail address", r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    # What is left of a key whose lines were separated. Checksums in hexadecimal stay.
    ("long base64", r"(?<![\w+/])(?![0-9a-fA-F]+\b)[A-Za-z0-9+/]{60,}={0,2}"),
)
RULES = tuple((kind, re.compile(pattern)) for kind, pattern in _RULES)


def redact(text: str, found: Counter[str]) -> str:
    """The text without secrets; `found` counts them by kind. The name of a secret stays."""

    def replacement(kind: str, match: re.Match[str]) -> str:
        found[kind] += 1
        name = re.match(rf"(?i)(-*{_NAME}\\*[\"']?\s*[:=\s]\s*)", match[0]) if kind == "named secret" else None
        return f"{name[0] if name else ''}[{kind} left out]"

    for kind, pattern in RULES:
        text = pattern.sub(lambda match, kind=kind: replacement(kind, match), text)  # type: ignore[misc]
    return text
