"""What is logged in JSON is one object a line, whatever it holds."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from polydom.features.errors import BadInput
from polydom.server.ops.logs import JsonLogFormatter, set_up_logs


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Give the root logger back what it had."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("polydom", "polydom.life"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def record(message: str, **extra: object) -> logging.LogRecord:
    logger = logging.getLogger("polydom")
    return logger.makeRecord(
        "polydom", logging.ERROR, "x.py", 1, message, (), None, extra=extra
    )


def test_json_has_what_came_with_the_message() -> None:
    path = Path("some") / "file"
    facts = json.loads(
        JsonLogFormatter().format(
            record("a\nb", event="reload", path=path, _engine_ns=1)
        )
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", facts.pop("time"))
    assert facts.pop("pid") > 0
    assert facts == {
        "level": "error",
        "message": "a\nb",
        "event": "reload",
        "path": str(path),
    }


def test_json_has_the_traceback_on_the_same_line() -> None:
    try:
        raise BadInput("no\nway")
    except BadInput as error:
        failed = record("it failed")
        failed.exc_info = (BadInput, error, error.__traceback__)
    line = JsonLogFormatter().format(failed)
    assert "\n" not in line
    assert json.loads(line)["traceback"].endswith(r"BadInput: no\nway")


@pytest.mark.parametrize(("log_format", "lines"), [("text", 1), ("json", 2)])
def test_logs_show_a_terminal_no_start(
    log_format: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logs(log_format)
    logging.getLogger("polydom.life").info("starting")
    logging.getLogger("polydom").info("reloaded")
    logging.getLogger("uvicorn").info("hello")
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == lines
    assert "reloaded" in shown[-1]


def test_logs_refuse_a_format_that_is_none() -> None:
    with pytest.raises(BadInput, match="--log-format xml: text or json"):
        set_up_logs("xml")
