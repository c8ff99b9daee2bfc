"""The how-to about a new index beside the served one, from top to bottom."""

import json
from pathlib import Path

from tests.support import documents
from tests.support.indexes import records
from tests.support.pages import read

PAGE = "how-to/roll-out.md"


class Reader(documents.Reader):
    """A reader who builds no index, and has an index of records already."""

    def _run(self, command: str) -> str:
        if command.startswith("polydom build "):
            self.ran.append(command)
            records.save_better(self.folder / command.rpartition(" ")[2])
            return ""
        if command.startswith("polydom rollout"):
            return super()._run(f"{command} --url http://127.0.0.1:8000")
        return super()._run(command)


def test_a_new_index_is_rolled_out_as_the_page_says(tmp_path: Path) -> None:
    records.make_index().save(tmp_path / "my.pdx")
    rows = [{**person, "label": "stays"} for person in records.PEOPLE]
    (tmp_path / "recent.jsonl").write_text("\n".join(map(json.dumps, rows)))
    page = read(PAGE)
    with Reader(tmp_path) as reader:
        reader.follow(page)
        assert len(reader.ran) == len(documents.commands(page))
        assert reader.shown == page.count("```text")
