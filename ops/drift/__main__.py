"""`python -m ops.drift ENV`: what stands in the account against what was deployed to it.

Exit status: 0 no drift; 1 drift; 4 no verdict.
"""

import sys
import traceback

NO_VERDICT = 4


def main() -> int:
    """Run; returns the exit status. An error of this program's own must not end in Python's status 1, a verdict."""
    try:
        from ops.drift.cli import main as run

        return run()
    except Exception:
        traceback.print_exc()
        return NO_VERDICT


if __name__ == "__main__":
    sys.exit(main())
