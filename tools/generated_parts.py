"""Parts of pages that are made from the code, between two comments of Markdown."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with what stands between the comments of each part made anew."""
    for name, text in parts.items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        if not rest or not after:
            raise SystemExit(f"no place for {name!r}: {begin} ... {end}")
        page = f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"
    return page


def outdated(pages: Mapping[Path, Callable[[], Mapping[str, str]]]) -> list[Path]:
    """Pages whose parts are not what the code makes."""
    return [path for path, _ in _changed(pages)]


def write(pages: Mapping[Path, Callable[[], Mapping[str, str]]]) -> int:
    """Write the pages; with --check only say which are out of date, and return 1."""
    changed = list(_changed(pages))
    check = "--check" in sys.argv[1:]
    for path, new in changed:
        print(f"{'out of date' if check else 'wrote'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(new, "utf-8")
    return int(check and bool(changed))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown; what is a line break or a bar in a cell is escaped."""
    names = list(head)
    lines = [_row(names), "|" + "---|" * len(names), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)


def _changed(
    pages: Mapping[Path, Callable[[], Mapping[str, str]]],
) -> Iterable[tuple[Path, str]]:
    for path, make in pages.items():
        old = path.read_text("utf-8")
        new = filled(old, make())
        if new != old:
            yield path, new
