"""``python -m polydom.server`` and the ``polydom`` command."""

import sys
from collections.abc import Sequence

from polydom.features.errors import PolydomError
from polydom.indexer.commands.app import app

from .cli.evaluate import evaluate
from .cli.plan import plan
from .cli.predict import predict
from .cli.score import score
from .cli.serve import polydom, serve

app.callback()(polydom)
for command, example in (
    (serve, "serve my.pdx --budget-ms 20 --port 8000"),
    (plan, "plan my.pdx --size 120000 --budget-ms 5"),
    (predict, "predict my.pdx cat.jpg --budget-ms 5"),
    (score, "score my.pdx photos/ -o labels.parquet -b 60s"),
    (evaluate, "evaluate my.pdx test.jsonl --budgets 1,2,5,20"),
):
    app.command(epilog=f"Example: polydom {example}")(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when done, 1 for a known error, 2 for wrong usage."""
    arguments = None if argv is None else list(argv)
    try:
        app(arguments, prog_name="polydom")
    except SystemExit as done:  # typer's way to return
        return int(done.code or 0)
    except (PolydomError, OSError) as error:
        print(f"polydom: {_told(error)}", file=sys.stderr)
        return 1
    return 0


def _told(error: Exception) -> str:
    """Say what is wrong; of a file, which it is, and not the system's number for it."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename2 or error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
