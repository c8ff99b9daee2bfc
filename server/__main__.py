"""Run the ``polydom`` command, also as ``python -m polydom.server``."""

import gc
import sys
from collections.abc import Sequence

from polydom.features.errors import PolydomError, Unfinished
from polydom.models.scoring.kernels.compiling import COMPILING

from .cli.app import app
from .cli.process import CompilingNotice, collect_seldom

UNFINISHED = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv`, by default the arguments of this process.

    Return the exit code: 0 for success, 1 for a known error, 2 for wrong usage, and 3
    if another machine has to continue a build.
    """
    arguments = None if argv is None else list(argv)
    try:
        app(arguments, prog_name="polydom")
    except SystemExit as done:  # typer ends every command with SystemExit
        return int(done.code or 0)
    except (PolydomError, OSError) as error:
        print(f"polydom: {_message_of(error)}", file=sys.stderr)
        return UNFINISHED if isinstance(error, Unfinished) else 1
    return 0


def _message_of(error: Exception) -> str:
    """Return an error's message; for an OSError, the file and the system's reason."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename2 or error.filename}: {error.strerror}"
    return str(error)


def run() -> None:
    """Run this process's command line, and exit with the code that `main` returns."""
    collect_seldom()
    COMPILING.tell = CompilingNotice()
    code = main()
    # A last garbage collection at exit would take longer than most commands.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
