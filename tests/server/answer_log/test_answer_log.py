"""Lines are written in order; what does not fit is dropped and counted."""

import json
import random
import shutil
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.server.answer_log.answer_log import AnswerLog, LogOptions
from polydom.server.answer_log.line import Entry
from polydom.server.answer_log.log_file import files_in
from polydom.server.errors import Failure
from polydom.server.schema.request_ids import RequestIds
from polydom.server.schema.wire import PredictRequest
from tests.support.waiting import wait_until

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def entry(number: int, item: PredictRequest | None = None, **more: Any) -> Entry:
    sent = msgspec.json.encode({"label": str(number)})
    read = None if item is None else lambda: item
    ids = RequestIds(b"", b"%d" % number, b"")
    given = ids, time.monotonic(), "predict", "mails", 1.0, sent
    return Entry(*given, item=read, **more)  # type: ignore[arg-type]


def has_dropped(log: AnswerLog, count: int) -> bool:
    return log.dropped["record"] == count


def lines_in(*files: Path) -> list[dict[str, Any]]:
    lines = [line for path in files for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def recorded(folder: Path) -> list[dict[str, Any]]:
    return lines_in(*sorted(files_in(folder))) if folder.exists() else []


def test_lines_have_the_fields_of_answers_and_those_drawn_their_item(
    tmp_path: Path,
) -> None:
    log = AnswerLog(LogOptions(tmp_path / "a.log", tmp_path / "folder"))
    log.start()
    began_s = time.time()
    log.add(entry(0))
    log.add(entry(1, PredictRequest(text="h\u00e4llo")))
    log.add(entry(2, PredictRequest(record={"age": 3, "job": None}), logged=False))
    log.add(entry(3, PredictRequest(image_base64=b"\xff\x00")))
    failure = Failure("not good", "bad_input")
    log.failed(
        RequestIds(b"", b"4", TRACE), "grpc", "", time.monotonic() - 2, 400, failure
    )
    log.stop()
    told = lines_in(tmp_path / "a.log")
    assert [line["id"] for line in told] == ["0", "1", "3", "4"]
    assert [line.get("label") for line in told] == ["0", "1", "3", None]
    common = {"entrance": "predict", "model": "mails", "size": 1.0, "status": 200}
    assert common.items() <= told[0].items()
    assert told[3].keys() == {
        *("time", "id", "trace_id", "entrance", "status", "elapsed_us", "error", "code")
    }
    assert told[3]["elapsed_us"] > 2e6
    assert told[3]["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    when = msgspec.convert(told[0]["time"], datetime)
    assert abs(when.timestamp() - began_s) < 60
    assert told[0]["time"].endswith("Z")
    items = recorded(tmp_path / "folder")
    assert [line["id"] for line in items] == ["1", "2", "3"]
    assert items[0] == {**told[1], "text": "h\u00e4llo"}
    assert items[1]["record"] == {"age": 3, "job": None}
    assert items[2]["image_base64"] == "/wA="
    assert log.dropped == {"access": 0, "record": 0}


def test_an_item_that_cannot_be_read_leaves_a_line_without_it(tmp_path: Path) -> None:
    def refuse() -> PredictRequest:
        raise BadItem("no item")

    log = AnswerLog(LogOptions(record=tmp_path / "folder"))
    log.start()
    failure = Failure("not good", "bad_item")
    log.failed(
        RequestIds(b"", b"1", b""),
        "predict",
        "m",
        time.monotonic(),
        400,
        failure,
        refuse,
    )
    log.add(entry(2))  # was not drawn, and there is no access log
    log.stop()
    (line,) = recorded(tmp_path / "folder")
    assert (line["id"], line["code"], "text" in line) == ("1", "bad_item", False)


def test_writing_resumes_when_the_folder_is_there_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "above" / "folder"
    place.parent.mkdir()
    log = AnswerLog(LogOptions(tmp_path / "a.log", place))
    log.start()
    text = PredictRequest(text="a")
    log.add(entry(1, text))
    wait_until(lambda: recorded(place))
    shutil.rmtree(place.parent)
    for number in range(2, 5):
        log.add(entry(number, text))
        wait_until(partial(has_dropped, log, number - 1))
    place.parent.mkdir()
    log.add(entry(5, text))
    log.stop()
    assert [line["id"] for line in recorded(place)] == ["5"]
    assert log.dropped == {"access": 0, "record": 3}
    assert len(lines_in(tmp_path / "a.log")) == 5
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == f"lines for {place} are dropped: No such file or directory"


def test_a_share_is_drawn(tmp_path: Path) -> None:
    log = AnswerLog(LogOptions(record=tmp_path, share=0.25))
    random.seed(1)
    drawn = sum(log.draws() for _ in range(10_000))
    assert abs(drawn - 2500) < 5 * (10_000 * 0.25 * 0.75) ** 0.5
    assert not any(AnswerLog(LogOptions(tmp_path / "a")).draws() for _ in range(100))
    assert all(AnswerLog(LogOptions(record=tmp_path)).draws() for _ in range(100))


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan"), float("inf")])
def test_a_share_out_of_range_is_refused(tmp_path: Path, share: float) -> None:
    with pytest.raises(
        BadInput, match=r"--record-share .*: above 0, up to 1 is needed"
    ):
        LogOptions(record=tmp_path, share=share)
    with pytest.raises(BadInput, match="need to be 1 or more"):
        LogOptions(record=tmp_path, file_bytes=0)
    with pytest.raises(BadInput, match="need to be 1 or more"):
        LogOptions(record=tmp_path, most_files=0)
