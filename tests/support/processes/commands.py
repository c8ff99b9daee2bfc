"""The command polydom, run in this process."""

import pytest

from polydom.server.__main__ import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code and what was printed to either stream."""
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err
