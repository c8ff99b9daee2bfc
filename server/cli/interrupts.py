"""What Ctrl-C means to commands that can go on later."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def resumable() -> Iterator[None]:
    """Say how to go on where the user interrupts."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\ninterrupted; --resume goes on where it stopped", err=True)
        raise typer.Exit(130) from None
