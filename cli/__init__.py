"""The command `trainyard`. Everything that takes time to import is imported by the command that needs it."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.exits import DONE, FAILED, INTERRUPTED
from cli.parser import parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status (`cli.exits.TABLE`)."""
    options = None
    try:
        options = parser().parse_args(arguments)
        _prepare_home()
        if options.no_color:
            os.environ["NO_COLOR"] = "1"
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        sys.stderr.write(f"\nInterrupted. {options.interrupted if options else 'Nothing was begun.'}\n")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            return DONE
        if message := _message(error):
            sys.stderr.write(f"{message}\n")
        else:
            import traceback

            traceback.print_exc()
        return FAILED


def _prepare_home() -> None:
    """Give jsii and the CDK CLI a folder of the checkout where they cannot write below HOME: jsii would never end."""
    if not os.access(Path("~").expanduser(), os.W_OK | os.X_OK):
        home = Path(__file__).resolve().parents[1] / ".trainyard" / "home"
        os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(home / "jsii"))
        os.environ.setdefault("CDK_HOME", str(home / "cdk"))


def _output_is_closed() -> bool:
    """Whether the reader of standard output, head for example, has ended; what is left to write is then discarded."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    if closed := bool(output.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return closed


def _message(error: Exception) -> str:
    """What the user can do about an error; empty for an error of the program itself."""
    from botocore.exceptions import BotoCoreError, ClientError

    from local.emulator.launch import EmulatorError
    from ops.preflight.aws import Denied
    from ops.problem import Problem
    from settings import Faults, UnknownName

    if isinstance(error, Denied):
        return f"AWS refused: {error} for your credentials. What each command needs: docs/permissions.md"
    if isinstance(error, (Problem, Faults, UnknownName, EmulatorError)):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'}: {error.strerror or error}"
    if isinstance(error, BotoCoreError):
        return f"AWS did not answer: {error}\nCheck region, network and credentials (aws sts get-caller-identity)."
    return f"AWS refused: {error}" if isinstance(error, ClientError) else ""
