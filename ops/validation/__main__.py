"""`python -m ops.validation ENV`: whether a cluster does its work, asked on the cluster itself.

Exit status: 0 passed; 1 failed; 4 it could not be found out.
"""

import sys
import traceback

NO_VERDICT = 4


def main() -> int:
    """Run; returns the exit status. An error of this program's own must not end in Python's status 1, a verdict."""
    try:
        from ops.validation.cli import main as run

        return run()
    except Exception:
        traceback.print_exc()
        return NO_VERDICT


if __name__ == "__main__":
    sys.exit(main())
