"""Labelled items that are files: in a folder for each class, or listed in a table."""

import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

from polydom.features.errors import BadItem, BadProject
from polydom.features.items import Kind
from polydom.features.readers.folders import ENDINGS, files_of, readable
from polydom.features.readers.tables import open_table
from polydom.features.wording import hint, listed

from ..project import Data, Project
from .rows import ENCODING_OPTION, Row, Source
from .stored_items import Place, Reference, decode_text

log = logging.getLogger("polydom")


def folder_source(path: Path, data: Data) -> Source:
    """Read the files of a folder, each in the folder of its class.

    Raises
    ------
    BadProject
        If it is no folder, or a file is in no folder of a class.
    """
    files = _files(path, kind_of(data))
    place = _folder_place(path, data)
    rows = (_file_row(place, path, file, data) for file in files)
    return Source(rows, len(files))


def nothing_in(path: Path, data: Data) -> str:
    """Say that a folder holds no items, and what is needed."""
    kind = kind_of(data)
    return (
        f"{path} holds no {kind}s ({', '.join(ENDINGS[kind])}), each in a folder "
        "named after its class"
    )


def kind_of(data: Data) -> Kind:
    """Say what the files of a project are."""
    return "text" if data.images is None else "image"


def _files(folder: Path, kind: Kind) -> list[Path]:
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "no such folder"
        raise BadProject(f"{folder}: {what}; a folder of {kind}s is needed")
    return files_of(folder, kind)


def _folder_place(folder: Path, data: Data) -> Place:
    encoding = None if data.images is not None else data.encoding or "utf-8-sig"
    return Place("file", os.fsencode(folder.absolute()), text=encoding)


def _file_row(place: Place, folder: Path, path: Path, data: Data) -> Row:
    """Read a file that lies in the folder of its class."""
    name = path.relative_to(folder)
    if len(name.parts) < 2:
        kind = "images" if data.images is not None else "texts"
        raise BadProject(
            f"{path}: no label; put the {kind} of each class in a folder of their own, "
            "named after the class, or name a file of labels with [data] labels"
        )
    reference, label = Reference(place, own_name=str(name)), readable(name.parts[0])
    return _with_content(Row(reference, path, label))


def _with_content(row: Row) -> Row:
    """Read the file whose path a row has."""
    path, place = row.content, row.reference.place
    content = path.read_bytes()
    reference = row.reference._replace(length=len(content))
    if place.text is not None:
        try:
            content = decode_text(content, place.text)
        except UnicodeError as error:
            raise BadProject(f"{path}: {error}{ENCODING_OPTION}") from error
    return row._replace(reference=reference, content=content)


def listed_source(project: Project, path: Path) -> Source:
    """Read the files that a table of labels names.

    Raises
    ------
    BadProject
        If it names one that is not there, or twice, or has not all columns.
    """
    data = project.data
    kind = kind_of(data)
    folder = project.path(data.images or data.texts or "")
    files = {str(file.relative_to(folder)): file for file in _files(folder, kind)}
    table = open_table(path, data.separator, data.encoding, [data.label])
    keys = data.label, data.group, data.time, data.weight
    wanted = [name for name in keys if name is not None]
    for name in wanted:
        if name not in table.names:
            raise BadProject(
                f"{path.name}: no column {name!r}; {hint(name, table.names)}"
            )
    others = [name for name in table.names if name not in wanted]
    if not others:
        raise BadProject(
            f"{path.name}: there is no column but {listed(wanted)}; one with the names "
            f"of the {kind} files is needed"
        )
    place = _folder_place(folder, data)
    rows = [
        _listed_row(f"{path.name}, row {number}", cells, others[0], files, data, place)
        for number, cells in enumerate(table.rows([others[0], *wanted]), 1)
    ]
    times = Counter(row.name for row in rows)
    if len(times) < len(rows):
        ((twice, count),) = times.most_common(1)
        raise BadProject(f"{path.name} names {twice} {count} times; once is needed")
    if data.test is None and len(rows) < len(files):
        log.warning(
            "%d of %d %ss in %s are not in %s, and left out",
            len(files) - len(rows),
            len(files),
            kind,
            folder.name,
            path.name,
        )
    return Source(map(_with_content, rows), len(rows))


def _listed_row(
    where: str,
    cells: Any,
    column: str,
    files: dict[str, Path],
    data: Data,
    place: Place,
) -> Row:
    """Find the file that a row of labels names."""
    if isinstance(cells, BadItem):
        raise BadProject(f"{where}: {cells}")
    name = str(Path(str(cells[column]).strip()))
    if name not in files:
        raise BadProject(
            f"{where}: there is no file {name!r} in {data.images or data.texts}; "
            f"{hint(name, [*files])}"
        )
    keys = data.label, data.group, data.time, data.weight
    label, group, time, weight = (None if k is None else cells[k] for k in keys)
    label = label.strip() if isinstance(label, str) else label
    reference = Reference(place, own_name=name)
    return Row(reference, files[name], label, group or None, time, weight)
