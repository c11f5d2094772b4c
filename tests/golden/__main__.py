"""`python -m tests.golden`: what `make golden` runs."""

from __future__ import annotations

import os

# The CDK's built-in validation takes seconds, and changes nothing of the templates.
os.environ.setdefault("CDK_VALIDATION", "false")

from tests.golden.files import refresh

if __name__ == "__main__":
    refresh()
