"""A report runs nothing but its own scripts, and is written whole or not at all."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from polydom.features.errors import BadInput, CannotWrite
from polydom.indexer.index.index import Index
from polydom.server.page.report import make_report, refuse_report, write_report
from tests.support.indexes.served import FEATURES_FILE, HAM, make_index, save_index
from tests.support.processes.commands import run

NASTY = "</script><script>alert(1)</script><!-- {facts} \u2028 {policy}"


@pytest.mark.parametrize("name", ["index_report", "evaluation_report"])
def test_policy_allows_exactly_what_is_in_the_file(name: str) -> None:
    page = make_report(name, "of mine", {})
    (policy,) = re.findall(
        r'http-equiv="Content-Security-Policy" content="([^"]+)"', page
    )
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    scripts = re.findall(
        r"<script(?: type=\"module\")?>(.*?)</script>", page, re.DOTALL
    )
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert (len(scripts), len(styles)) == (2, 1)
    named = set(re.findall(r"'sha256-([^']+)'", policy))
    digests = {
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        for one in (*scripts, *styles)
    }
    assert named == digests
    assert not re.search(r'(?:src|href)="(?!data:)', page)


def test_facts_and_titles_are_no_markup() -> None:
    page = make_report("index_report", NASTY, {"name": NASTY})
    assert page.count("<script") == 3
    assert "alert(1)</script>" not in page
    (facts,) = re.findall(r'type="application/json">(.*?)</script>', page, re.DOTALL)
    assert json.loads(facts) == {"name": NASTY}


def test_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(TypeError):
        write_report(path, "index_report", "x", {"name": object()})
    with pytest.raises(CannotWrite):
        write_report(tmp_path / "none" / "x.html", "index_report", "x", {})
    assert (path.read_text(), [*tmp_path.iterdir()]) == ("before", [path])
    write_report(path, "index_report", "x", {})
    assert path.read_text("utf-8") == make_report("index_report", "x", {})
    assert [*tmp_path.iterdir()] == [path]


def test_places_that_cannot_be_written_are_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="this is a folder"):
        refuse_report(tmp_path)
    with pytest.raises(BadInput, match="there is no folder"):
        refuse_report(tmp_path / "none" / "report.html")
    missing = tmp_path / "none" / "report.html"
    code, _, err = run(capsys, "inspect", "no.pdx", "--html", missing)
    assert (code, "there is no folder" in err) == (1, True)
    options = ["--budgets", "1", "--html", missing]
    code, _, err = run(capsys, "evaluate", "no.pdx", "test", *options)
    assert (code, "there is no folder" in err) == (1, True)


def test_a_report_replaces_another_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, own = save_index(tmp_path), tmp_path / "own.html"
    own.write_text("<!doctype html>\n<title>mine</title>")
    for path in (index, own):
        before = path.read_bytes()
        code, _, err = run(capsys, "inspect", index, "--html", path)
        assert (code, "is not replaced by a report" in err) == (1, True)
        options = ["--budgets", "1", "--html", path]
        code, _, err = run(capsys, "evaluate", index, "test", *options)
        assert (code, "is not replaced by a report" in err) == (1, True)
        assert path.read_bytes() == before
    for _ in range(2):
        code, *_ = run(capsys, "inspect", index, "--html", tmp_path / "new.html")
        assert code == 0


def test_inspect_prints_as_before_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, report = save_index(tmp_path), tmp_path / "report.html"
    plain = run(capsys, "inspect", index, "--json")
    code, out, err = run(capsys, "inspect", index, "--json", "--html", report)
    assert (code, out) == plain[:2]
    assert err == f"wrote {report}\n"
    text = report.read_text("utf-8")
    assert HAM not in text  # no training item is in it
    (facts,) = re.findall(r'type="application/json">(.*?)</script>', text, re.DOTALL)
    described = json.loads(facts)
    assert described["index"]["version"] == Index.load(index).version
    assert described["index"]["samples"] == 0
    assert [one["name"] for one in described["curves"]["parts"]][:3] == [
        "length",
        "marks",
        "words",
    ]


def test_bare_candidates_have_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Index.from_candidates([[1e-3]], [0.5], (1, 10)).save(tmp_path / "bare.pdx")
    report = tmp_path / "report.html"
    code, _, err = run(capsys, "inspect", tmp_path / "bare.pdx", "--html", report)
    assert (code, "candidates without models" in err) == (1, True)
    assert not report.exists()


def test_evaluation_is_written_beside_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": HAM, "label": "ham"}, {"text": "WIN $$", "label": "spam"}]
    (tmp_path / "mails.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = [tmp_path / "mails.jsonl", "--budgets", "5", "--features", FEATURES_FILE]
    make_index().save(tmp_path / "my.pdx")
    html = tmp_path / "found.html"
    code, out, _ = run(
        capsys, "evaluate", tmp_path / "my.pdx", *given, "--html", html, "--json"
    )
    assert code == 0
    text = html.read_text("utf-8")
    (facts,) = re.findall(r'type="application/json">(.*?)</script>', text, re.DOTALL)
    assert json.loads(facts) == json.loads(out)
    assert "my.pdx on 2 items of mails.jsonl" in text
