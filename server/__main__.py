"""``python -m polydom.server`` and the ``polydom`` command."""

import sys
from collections.abc import Sequence

from ..features.errors import PolydomError
from ..indexer.cli import app
from . import cli, score_cli  # noqa: F401  add their commands to app


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when done, 1 for a known error, 2 for wrong usage."""
    arguments = None if argv is None else list(argv)
    try:
        app(arguments, prog_name="polydom")
    except SystemExit as done:  # typer's way to return
        return int(done.code or 0)
    except (PolydomError, OSError) as error:
        print(f"polydom: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
