"""What ParallelCluster's own update policies say of steps from one configuration to another:

    parallelcluster/.venv/bin/python -m parallelcluster.changes < STEPS

STEPS is a JSON object `{"<step>": {"name": <cluster>, "old": <configuration>, "new": <configuration>}}`. Prints a JSON
object with `policies.examine`'s answer for each step. Exit status: 0 answered; 2 wrong use.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> int:
    """Run; returns the exit status."""
    try:
        steps: dict[str, Any] = json.load(sys.stdin)
        given = {key: (step["name"], step["old"], step["new"]) for key, step in steps.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write(f"The steps cannot be read: {type(error).__name__}: {error}. {__doc__}\n")
        return 2

    # Imported late: it takes seconds, and wrong use should not.
    from parallelcluster.policies import examine

    answers = {}
    for key, (name, old, new) in given.items():
        # Some policies depend on the region's partition, which the package reads from here.
        os.environ["AWS_DEFAULT_REGION"] = str(new.get("Region") or old.get("Region") or "us-east-1")
        answers[key] = examine(name, old, new)
    json.dump(answers, sys.stdout)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
