"""What fits into the queue is written in order; the rest is dropped and counted."""

import json
import time
from pathlib import Path
from typing import Any

from polydom.server.answer_log.line import Entry, line_of
from polydom.server.answer_log.line_writer import MOST_HELD, MOST_WAITING, LineWriter
from polydom.server.answer_log.log_file import LogFile
from polydom.server.schema.request_ids import RequestIds
from tests.support.waiting import wait_until


def entry(number: int, **more: Any) -> Entry:
    ids = RequestIds(b"", b"%d" % number, b"")
    return Entry(ids, time.monotonic(), "predict", "mails", 1.0, b'{"a":1}', **more)


def broken() -> Entry:
    ids = RequestIds(b"", b"1", b"")
    return Entry(ids, 1e300, "predict", "mails", 1.0, b"{}")  # a time in no year


def ids_in(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_more_than_fits_is_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    writer = LineWriter("a.log", line_of, time.time)
    writer.add(entry(0, held=MOST_HELD - 1))
    writer.add(entry(1, held=2))
    writer.add(entry(2, held=1))
    writer.add(entry(3, held=1))
    assert writer.dropped == 2
    for number in range(4, MOST_WAITING + 4):
        writer.add(entry(number))
    assert writer.dropped == 4
    writer.start(LogFile(path))
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") == MOST_WAITING)
    writer.add(entry(-1, held=MOST_HELD))  # there is room again
    writer.begin_stop()
    writer.join(20)
    expected = [0, 2, *range(4, MOST_WAITING + 2), -1]
    assert ids_in(path) == [str(number) for number in expected]


def test_a_line_that_cannot_be_made_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    writer = LineWriter("a.log", line_of, time.time)
    writer.start(LogFile(path))
    writer.add(entry(0))
    writer.add(broken())
    writer.add(entry(2))
    writer.begin_stop()
    writer.join(20)
    assert (ids_in(path), writer.dropped) == (["0", "2"], 1)
