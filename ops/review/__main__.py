"""`python -m ops.review diff ENV`: what a change does to a deployment.

Exit status: 0 nothing changes; 1 safe; 2 disruptive: nodes must be stopped or drained, or the network is interrupted;
3 destructive: data or the cluster itself are at stake; 4 no verdict.
"""

import sys
import traceback

NO_VERDICT = 4


def main() -> int:
    """Run; returns the exit status. An error of this program's own must not end in Python's status 1, a verdict."""
    try:
        from ops.review.cli import main as run

        return run()
    except Exception:
        traceback.print_exc()
        return NO_VERDICT


if __name__ == "__main__":
    sys.exit(main())
