"""`polydom evaluate` as it is typed, in process, of a server, and interrupted."""

import json
from pathlib import Path
from typing import Any

import pytest

from polydom.server.cli.asking.predict import answer_files
from polydom.server.evaluation.comparison import WARM_UP
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Answer, Terms
from tests.support.indexes import fetched
from tests.support.indexes.free_records import save_records
from tests.support.indexes.served import (
    FEATURES_FILE,
    HAM,
    LABELS,
    SPAM,
    save,
    save_index,
)
from tests.support.indexes.stopping_records import (
    draw_rows,
    label_rows,
    make_index,
    record_of,
)
from tests.support.indexes.three_kinds import picture, save_images
from tests.support.oracles import evaluation as oracle
from tests.support.processes import servers
from tests.support.processes.commands import run

OWN = ["--features", str(FEATURES_FILE)]
TEXTS = [HAM, SPAM, "call me!", "free $$", "win", "lunch?", "free lunch $", "hi!!!"]
BASELINE = """
class Model:
    def predict(self, texts):
        return ["spam" if "!" in text else "ham" for text in texts]


def make():
    return Model()
"""


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    """Texts with labels, an unreadable line, one without a label, one of no class."""
    path = tmp_path / "mails.jsonl"
    rows = [{"text": text, "label": LABELS[k % 2]} for k, text in enumerate(TEXTS)]
    others: list[Any] = [{"text": "x"}, [], {"text": "free!", "label": "eggs"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *others]))
    return path


@pytest.fixture
def baseline(tmp_path: Path) -> str:
    (tmp_path / "baseline.py").write_text(BASELINE)
    return f"{tmp_path / 'baseline.py'}:make"


def answers_one_by_one(index: Path, mails: Path, terms: Terms) -> list[oracle.Plain]:
    """What `polydom predict` says of each text that can be asked for."""
    rows = [json.loads(line) for line in mails.read_text().splitlines()]
    labels, paths = [], []
    for number, row in enumerate(rows):
        if isinstance(row, dict) and "label" in row:
            labels.append(row["label"])
            paths.append(mails.parent / f"{number}.txt")
            paths[-1].write_text(row["text"])
    replies = []
    found = answer_files(open_translator(index, [FEATURES_FILE]), paths, terms)
    for position, (label, (_, answer)) in enumerate(zip(labels, found, strict=True)):
        assert isinstance(answer, Answer)
        took_ms = answer.elapsed_us / 1e3
        plain = oracle.Plain(position, label, answer.label, took_ms, answer.scores)
        replies.append(plain)
    return replies


def test_evaluate_says_what_asking_one_by_one_says(
    tmp_path: Path, mails: Path, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    index = save_index(tmp_path, unit="usd")
    options = ["--budgets", "0.01,0.006,0.002", "--against", baseline, "--json"]
    code, out, err = run(capsys, "evaluate", index, mails, *OWN, *options)
    assert code == 0, err
    found = json.loads(out)
    assert "items that cannot be read, left out: 1; the first, 9: " in err
    assert "items without a label, left out: 1" in err
    assert "answers are wrong: 1 (eggs)" in err
    assert [own["budget"] for own in found["budgets"]] == [0.002, 0.006, 0.01]
    for own in found["budgets"]:
        replies = answers_one_by_one(index, mails, Terms(budget=own["budget"]))
        for name, value in oracle.judged(replies, LABELS).items():
            if not name.endswith("_ms"):
                assert own[name] == (None if value is None else pytest.approx(value))
        assert (own["inside"], own["right_inside"]) == (1.0, own["accuracy"])
    assert [own["plans"][0]["features"] for own in found["budgets"]] == [
        ["length"],
        ["length", "marks"],
        ["length", "marks", "words"],
    ]
    assert found["budgets"][2]["expected_accuracy"] == pytest.approx(0.95)
    prior, cheapest, largest, own_model = found["beside"]
    assert [prior["name"], own_model["name"]] == ["prior", baseline]
    assert cheapest["features"] == ["length"]
    assert largest["features"] == ["length", "marks", "words"]
    assert largest["accuracy"] == found["budgets"][2]["accuracy"]
    assert (cheapest["inside"], largest["inside"]) == ([1, 1, 1], [0, 0, 1])
    assert largest["right_inside"] == [0, 0, largest["accuracy"]]
    assert own_model["right_inside"] == [None] * 3
    said = [LABELS["!" in text] for text in TEXTS]
    rights = [a == LABELS[k % 2] for k, a in enumerate(said)]
    assert own_model["accuracy"] == pytest.approx(sum(rights) / 9)
    counted = oracle.confused(replies)
    confusion = found["confusion"]
    assert confusion["labels"] == ["ham", "spam", "eggs"]
    assert confusion["answers"] == [*LABELS]
    for label, row in zip(confusion["labels"], confusion["matrix"], strict=True):
        assert row == [counted.get((label, answer), 0) for answer in LABELS]


def test_evaluate_prints_tables(
    index: Path, mails: Path, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--budgets", "500,2000", "--repeat", "2"]
    arguments = ("evaluate", index, mails, *OWN, *options, "--against", baseline)
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == f"18 answers each to 9 items of {mails}"
    shown = [" ".join(line.split()) for line in lines]
    assert any(line.startswith("polydom, 500 ms 0.") for line in shown)
    assert "500 2000" in shown
    assert "polydom, 2000 ms: 100.0% length, marks, words" in shown
    assert "answers at 2000 ms, a row for each class" in shown
    assert "a budget of 2000 ms was cut down to 1000 ms" in err


def test_evaluate_judges_images_and_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for label, grey in (("dark", 10), ("bright", 240)):
        (tmp_path / "held-out" / label).mkdir(parents=True)
        (tmp_path / "held-out" / label / "1.png").write_bytes(picture(grey))
    table = tmp_path / "people.csv"
    table.write_text("age;job;income;id;y\n20;baker;1;7;no\n60;clerk;2;8;yes\n")
    seen = tmp_path / "seen.py"
    seen.write_text(
        "class Model:\n"
        "    def predict(self, rows):\n"
        "        return ['yes' if row['id'] == 8 else 'no' for row in rows]\n"
    )
    whole = ["--label", "y", "--against", f"{seen}:Model"]
    for index, test, options in (
        (save_images(tmp_path), tmp_path / "held-out", []),
        (save_records(tmp_path), table, whole),
    ):
        arguments = (index, test, "--budgets", "900", *options, "--json")
        code, out, err = run(capsys, "evaluate", *arguments)
        assert code == 0, err
        found = json.loads(out)
        assert found["budgets"][0]["accuracy"] == 1.0
        assert found["beside"][0]["accuracy"] == 0.5
        assert found["beside"][-1]["accuracy"] == 1.0
        assert found["confusion"]["pairs"] == []


def test_evaluate_asks_a_server(
    index: Path, mails: Path, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = index.parent
    tokens = folder / "tokens"
    tokens.write_text("# of tests\nsixteen-letters-or-more\n")
    dear = save_index(folder, unit="usd").rename(folder / "dear.pdx")
    save_index(folder)
    save(folder / "newer.pdx", best=0.9)
    photo = folder / "photos" / "dark" / "1.png"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(picture(10))
    people = folder / "people.csv"
    people.write_text("age,job,label\n20,,no\n60,lawyer,no\n,baker,yes\n")
    others = [str(save_images(folder)), str(save_records(folder))]
    own = (f"dear={dear}", *others, *OWN, f"--token-file={tokens}")
    with servers.serving(index, *own) as (_, port):
        url = f"http://127.0.0.1:{port}"
        server = ("--url", url, "--token-file", tokens, "--json")

        code, out, err = run(
            capsys, "evaluate", index, mails, *OWN, "--budgets", "900", *server
        )
        assert code == 0, err
        found = json.loads(out)
        (judged,) = found["budgets"]
        replies = answers_one_by_one(index, mails, Terms(budget_ms=900))
        expected = oracle.judged(replies, LABELS)
        for name in ("accuracy", "macro_f1", "auc", "log_loss"):
            assert judged[name] == pytest.approx(expected[name]), name
        assert (judged["inside"], found["url"]) == (1.0, url)
        assert [one["name"] for one in found["beside"]] == ["prior"]

        newer = ("evaluate", folder / "newer.pdx", mails, "--budgets", "900")
        code, out, err = run(capsys, *newer, *server, "--against", baseline)
        assert (code, len(json.loads(out)["beside"])) == (0, 2)
        assert f"{url} answered with another index than {newer[1]}" in err

        money = ("evaluate", dear, mails, "--budgets", "0.006", *server)
        code, out, err = run(capsys, *money, "--model", "dear")
        assert code == 0, err
        (judged,) = json.loads(out)["budgets"]
        assert judged["plans"][0]["features"] == ["length", "marks"]
        assert 0.004 < judged["mean_cost"] <= 0.006

        for path, test in ((others[0], photo.parents[1]), (others[1], people)):
            arguments = ("evaluate", path, test, "--budgets", "900", *server)
            code, out, err = run(capsys, *arguments, "--model", Path(path).stem)
            assert code == 0, err
            (judged,) = json.loads(out)["budgets"]
            assert (judged["unanswered"], judged["inside"]) == (0, 1.0)

        for options, message in (
            ((*server, "--model", "none"), "'none'"),
            (("--url", url), "a token is needed that this server knows"),
        ):
            code, _, err = run(capsys, *newer, *options)
            assert (code, message in err.splitlines()[-1]) == (1, True)


def test_evaluate_says_that_there_is_no_server(
    index: Path,
    mails: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polydom.server.evaluation.run.READY_S", 0.1)
    options = ("--budgets", "1", "--url", "http://127.0.0.1:1")
    code, _, err = run(capsys, "evaluate", index, mails, *options)
    assert code == 1
    assert err.splitlines()[-1] == "polydom: the server was not ready within 0.1 s"


INTERRUPTS = """
import signal

class Model:
    asked = 0

    def predict(self, texts):
        self.asked += 1
        if self.asked > {last}:
            signal.raise_signal(signal.SIGINT)
        return ["ham"]
"""


@pytest.mark.parametrize(("last", "done"), [(WARM_UP + 4, 4), (2, 0)])
def test_evaluate_shows_what_is_done_when_it_is_interrupted(
    index: Path,
    mails: Path,
    capsys: pytest.CaptureFixture[str],
    last: int,
    done: int,
) -> None:
    model = mails.with_name("interrupts.py")
    model.write_text(INTERRUPTS.format(last=last))
    options = ("--budgets", "900", *OWN, "--against", f"{model}:Model", "--json")
    code, out, err = run(capsys, "evaluate", index, mails, *options)
    assert code == 130
    assert f"interrupted after {done} of 9 trials" in err
    if done:
        found = json.loads(out)
        assert (found["complete"], found["asked"], found["items"]) == (False, 4, 4)
        assert found["budgets"][0]["plans"][0]["share"] == 1.0
    else:
        assert out == ""


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--budgets", "1,x"), 2, "'1,x' came; finite numbers above 0"),
        (("--budgets", "0,1"), 2, "finite numbers above 0"),
        (("--budgets", "1,inf"), 2, "finite numbers above 0"),
        ((), 2, "--budgets"),
        (("--budgets", "1,2", "--confusion", "5"), 1, "--confusion 5 is none of"),
        (("--budgets", "1", "--model", "x"), 1, "--model is for a server: give --url"),
        (("--budgets", "1", "--against", "x"), 1, "FILE.py:FUNCTION is needed"),
        (
            ("--budgets", "1", "--label", "kind"),
            1,
            "has a 'kind'; the first has text, ",
        ),
        (("--budgets", "1", "--url", "ftp://x"), 1, "'ftp://x' is no address"),
        (
            ("--budgets", "1", "--url", "http://127.0.0.1:1", "--token-file", "none"),
            1,
            "--token-file none: No such file",
        ),
        (("--budgets", "1", "--limit", "0"), 2, "--limit"),
    ],
)
def test_evaluate_says_in_one_line_what_is_wrong(
    index: Path,
    mails: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    found, out, err = run(capsys, "evaluate", index, mails, *OWN, *options)
    assert (found, out) == (code, "")
    assert message in " ".join(err.split())


def test_evaluate_counts_what_has_no_answer(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "torn.jsonl"
    texts = [HAM, "torn \x00", HAM]
    rows = [json.dumps({"text": text, "label": "ham"}) for text in texts]
    path.write_text("\n".join(rows))
    arguments = ("evaluate", index, path, *OWN, "--budgets", "900", "--exact")
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0
    (own,) = json.loads(out)["budgets"]
    assert (own["unanswered"], own["accuracy"]) == (1, pytest.approx(2 / 3))
    assert own["auc"] is None
    assert "polydom had no answer 1 times; the first time: feature 'words' " in err
    assert "no answer" in run(capsys, *arguments)[1]


def test_scores_of_early_answers_are_shown_beside_exact_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, people = tmp_path / "people.pdx", tmp_path / "people.jsonl"
    make_index().save(index)
    drawn = draw_rows(60, 9)
    labels = [("no", "yes")[code] for code in label_rows(drawn, 2)]
    rows = [{"record": record_of(row)} for row in drawn]
    given = [row | {"label": label} for row, label in zip(rows, labels, strict=True)]
    people.write_text("".join(json.dumps(row) + "\n" for row in given))
    order = ["evaluate", index, people, "--budgets", "1,900"]
    code, out, err = run(capsys, *order, "--json")
    assert code == 0, err
    found = json.loads(out)
    early, last = found["early"], found["budgets"][-1]
    assert early["amount"] == 900
    assert early["items"] == round(last["early"] * len(rows)) > 0
    for side in ("early", "whole"):
        assert 0.5 < early[side]["auc"] <= 1.0
        assert 0.0 < early[side]["brier"] < 0.25
    assert early["early"]["brier"] != early["whole"]["brier"]
    assert last["auc"] is not None
    assert last["log_loss"] is not None
    assert "exact" not in [one["name"] for one in found["beside"]]
    code, out, _ = run(capsys, *order)
    title = f"scores of the {early['items']} early answers at 900 ms, and of whole"
    assert title in " ".join(out.split())
    assert json.loads(run(capsys, *order, "--json", "--exact")[1])["early"] is None


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Labelled records, with the columns that fetches of `fetched` bring."""
    path = tmp_path / "people.jsonl"
    rows = [
        {"record": {"customer_id": 17, **person}, "label": ("stays", "flies")[fly]}
        for person, fly in zip(fetched.PEOPLE, fetched.FLIES, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 5))
    return path


def test_evaluate_lets_fetched_columns_come_late(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = fetched.save_index(tmp_path)
    options = ["--budgets", "0.001,900", "--simulate-fetches"]
    code, out, err = run(capsys, "evaluate", index, people, *options, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["simulated_fetches"] is True
    least, most = found["budgets"]
    # a microsecond pays for the prior alone
    assert [one["came"] for one in least["fetches"]] == [0, 0]
    assert least["mean_price"] == 0
    names = [one["name"] for one in most["fetches"]]
    assert names == ["employer", "orders"]
    assert [one["sent"] for one in most["fetches"]] == [1, 1]
    assert most["fetches"][0]["came"] == 1
    assert most["mean_price"] == pytest.approx(0.002)
    assert most["p99_ms"] >= most["mean_wait_ms"] > 1
    assert most["expected_quality"] > 0.85
    code, out, err = run(capsys, "evaluate", index, people, *options)
    assert code == 0, err
    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert "employer orders mean wait ms mean price" in shown
    assert any(line.startswith("polydom, 900 ms 100.0% of 100.0%") for line in shown)
    options += ["--max-price", "0.001", "--json"]
    code, out, err = run(capsys, "evaluate", index, people, *options)
    assert code == 0, err
    sent = [one["sent"] for one in json.loads(out)["budgets"][1]["fetches"]]
    assert sent == [1, 0]


def test_evaluate_takes_fetched_columns_from_the_table_unless_told_not_to(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = fetched.save_index(tmp_path)
    arguments = ("evaluate", index, people, "--budgets", "900")
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    (own,) = json.loads(out)["budgets"]
    assert "fetches" not in own
    assert own["plans"][0]["features"] == ["person", "work", "history"]
    assert "columns of fetches (employer, orders)" in err
    for options, said in (
        (["--max-price", "1"], "--max-price is for --simulate-fetches"),
        (["--simulate-fetches", "--url", "http://127.0.0.1:1"], "fetches for itself"),
    ):
        code, _, err = run(capsys, *arguments, *options)
        assert code == 1
        assert said in err


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--budgets=5"],
        ["TEST"],
        ["TEST", "--record=."],
        ["--record=."],
        ["--labels=x.csv", "--budgets=5"],
        ["TEST", "--labels=x.csv", "--budgets=5"],
        *(
            ["--record=.", "--labels=x.csv", option]
            for option in ("--html=x", "--against=x", "--url=x", "--confusion=5")
        ),
    ],
)
def test_items_come_from_a_file_or_from_recorded_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    code, _, err = run(capsys, "evaluate", tmp_path / "none.pdx", *given)
    assert code == 2
    assert "give " in err or "need --budgets" in err
    assert "--budgets" in err
