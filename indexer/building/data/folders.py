"""Reading items that are files: in one folder per class, or listed in a table."""

import logging
import os
import unicodedata
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from polydom.features.errors import BadItem, BadProject
from polydom.features.items import Kind
from polydom.features.readers.encodings import decode_text
from polydom.features.readers.folders import (
    ENDINGS,
    HIDDEN,
    FoundFiles,
    find_files,
    has_usual_ending,
    readable,
)
from polydom.features.readers.table_file import Table, open_table
from polydom.features.wording import hint, listed

from ..project import Project
from ..project_tables.data import Data
from .dataset import Dataset
from .stored_items import (
    ENCODING_OPTION,
    Place,
    Reference,
    Row,
    Source,
)

log = logging.getLogger("polydom")


# Usual names of folders that are parts of the data and no classes.
TRAINED = {"train", "training", "trainset"}
TESTED = {"test", "testing", "testset", "held-out", "held_out", "holdout"}
PARTS = TRAINED | TESTED | {"dev", "eval", "val", "valid", "validation"}
LOOSE = "it is in no folder of a class"


def folder_source(path: Path, data: Data) -> Source:
    """Return the items of a folder that has one sub-folder of files for each class.

    A file is read when the source yields its row. Warnings name files that cannot be
    used. Raises BadProject if a class has no usable file.
    """
    found = _find(path, data)
    _refuse_parts(path, found, data)
    kind = kind_of(data)
    files = []
    for file in found.files:
        if file.parent == path and not has_usual_ending(file, kind):
            found.left_out[readable(file.name)] = LOOSE
        else:
            files.append(file)
    classes = {readable(file.relative_to(path).parts[0]) for file in files}
    _refuse_lost(path, found, classes, kind)
    for remark in found.remarks():
        log.warning("%s: %s", path.name, remark)
    for name in found.folders:
        if name not in classes:
            log.warning("%s: the folder %r holds no %s", path.name, name, kind)
    _say_alike(path, classes)
    place = _folder_place(path, data)
    rows = (_file_row(place, path, file, data) for file in files)
    return Source(rows, len(files), found.reasons())


def loose_source(path: Path, data: Data) -> Source:
    """Return the items of a folder without labels, in whatever folders they are."""
    found, place = _find(path, data), _folder_place(path, data)
    for remark in found.remarks():
        log.warning("%s: %s", path.name, remark)
    references = (
        (Reference(place, own_name=str(file.relative_to(path))), file)
        for file in found.files
    )
    rows = (_with_content(Row(one, file, None)) for one, file in references)
    return Source(rows, len(found.files), found.reasons())


def nothing_in(path: Path, data: Data) -> str:
    """Return the error message for a folder in which no file can be used."""
    kind = kind_of(data)
    left_out = "".join(f"; {remark}" for remark in _find(path, data).remarks())
    return (
        f"{path} holds no {kind}s ({', '.join(ENDINGS[kind])}), each in a folder "
        f"named after its class{left_out}"
    )


def refuse_lost_classes(dataset: Dataset) -> None:
    """Raise BadProject if all files in the folder of a class were left out."""
    for name, why in dataset.skipped:
        folder, *within = Path(name).parts
        is_lost = within and dataset.labels and folder not in dataset.labels
        if is_lost and not why.startswith(HIDDEN):
            raise BadProject(
                f"none of the files in {folder} can be used, so it would be no class: "
                f"{name}: {why}"
            )


def _refuse_parts(path: Path, found: FoundFiles, data: Data) -> None:
    """Raise BadProject if all sub-folders have names such as `train` and `test`."""
    if not found.folders or not PARTS.issuperset(map(str.casefold, found.folders)):
        return
    if all(len(file.relative_to(path).parts) > 2 for file in found.files):
        key = "images" if data.images is not None else "texts"
        first, *others = sorted(found.folders, key=_part)
        tested = f' and test = "{path.name}/{others[0]}"' if others else ""
        raise BadProject(
            f"{path} holds {listed(found.folders)}, which would be its classes; write "
            f'[data] {key} = "{path.name}/{first}"{tested}'
        )


def _part(name: str) -> int:
    """Return a key that sorts folders: training data, then test data, then others."""
    return 0 if name.casefold() in TRAINED else 2 - (name.casefold() in TESTED)


def _refuse_lost(
    path: Path, found: FoundFiles, classes: Collection[str], kind: Kind
) -> None:
    """Raise BadProject if no file in the folder of a class can be used."""
    for name, why in sorted(found.left_out.items()):
        folder, *within = Path(name).parts
        is_lost = folder in found.folders and folder not in classes
        if is_lost and within and why != HIDDEN:
            raise BadProject(
                f"{path}: the folder {folder!r} holds no {kind} that can be read: "
                f"{name}: {why}; without any it is no class: take it out"
            )


def _say_alike(path: Path, classes: Iterable[str]) -> None:
    """Warn of class names that differ only in case, outer spaces or Unicode form."""
    alike: dict[str, list[str]] = {}
    for name in sorted(classes):
        plain = unicodedata.normalize("NFKC", name).casefold().strip()
        alike.setdefault(plain, []).append(name)
    for names in alike.values():
        if len(names) > 1:
            log.warning("%s: %s are two classes", path.name, listed(names))


def kind_of(data: Data) -> Kind:
    """Return the kind of a project's files: "text" or "image"."""
    return "text" if data.images is None else "image"


def _find(folder: Path, data: Data) -> FoundFiles:
    kind = kind_of(data)
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "no such folder"
        raise BadProject(f"{folder}: {what}; a folder of {kind}s is needed")
    return find_files(folder, kind, encoded=data.encoding is not None)


def _folder_place(folder: Path, data: Data) -> Place:
    encoding = None if data.images is not None else data.encoding or ""
    return Place("file", os.fsencode(folder.absolute()), text=encoding)


def _file_row(place: Place, folder: Path, path: Path, data: Data) -> Row:
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
    """Read the row's file, and put its content in place of its path."""
    path, place = row.content, row.reference.place
    try:
        data = path.read_bytes()
        content = data if place.text is None else decode_text(data, place.text)
    except OSError as error:
        raise BadProject(f"{readable(path)}: {error.strerror}") from error
    except UnicodeError as error:
        raise BadProject(f"{readable(path)}: {error}{ENCODING_OPTION}") from error
    reference = row.reference._replace(length=len(data))
    return row._replace(reference=reference, content=content)


def listed_source(project: Project, path: Path) -> Source:
    """Return the items that a table of labels lists, each read when it is yielded."""
    data = project.data
    kind = kind_of(data)
    folder = project.path(data.images or data.texts or "")
    found = _find(folder, data)
    files = {_plain(file.relative_to(folder)): file for file in found.files}
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
    column = _naming_column(table, others, files)
    place = _folder_place(folder, data)
    rows = []
    for number, cells in enumerate(table.rows([column, *wanted]), 1):
        where = f"{path.name}, row {number}"
        if isinstance(cells, BadItem):
            raise BadProject(f"{where}: {cells}")
        name = _plain(cells[column])
        if name not in files:
            raise BadProject(f"{where}: {_why_no_file(name, folder, files, found)}")
        own_name = str(files[name].relative_to(folder))
        rows.append(
            _listed_row(Reference(place, own_name=own_name), files[name], cells, data)
        )
    _say_unlisted(path, folder, rows, files, data)
    return Source(map(_with_content, rows), len(rows), found.reasons())


def _listed_row(reference: Reference, file: Path, cells: Any, data: Data) -> Row:
    keys = data.label, data.group, data.time, data.weight
    label, group, time, weight = (None if k is None else cells[k] for k in keys)
    label = label.strip() if isinstance(label, str) else label
    return Row(reference, file, label, group or None, time, weight)


def _say_unlisted(
    path: Path, folder: Path, rows: Sequence[Row], files: Collection[str], data: Data
) -> None:
    """Raise BadProject if the table lists a file twice; warn if it omits files."""
    times = Counter(row.name for row in rows)
    if len(times) < len(rows):
        ((twice, count),) = times.most_common(1)
        raise BadProject(f"{path.name} names {twice} {count} times; once is needed")
    if data.test is None and len(rows) < len(files):
        log.warning(
            "%d of %d %ss in %s are not in %s, and left out",
            len(files) - len(rows),
            len(files),
            kind_of(data),
            folder.name,
            path.name,
        )


def _naming_column(table: Table, names: Sequence[str], files: Container[str]) -> str:
    """Return the column with a file's name in the first usable row, or `names[0]`."""
    for row in table.rows(names):
        if not isinstance(row, BadItem):
            return next((n for n in names if _plain(row[n]) in files), names[0])
    return names[0]


def _plain(name: object) -> str:
    """Return a path in the form in which paths of all operating systems are compared.

    It has slashes instead of backslashes, and composed Unicode letters (NFC).
    """
    path = Path(str(name).strip().replace("\\", "/"))
    return unicodedata.normalize("NFC", path.as_posix())


def _why_no_file(
    name: str, folder: Path, files: Collection[str], found: FoundFiles
) -> str:
    for own, why in found.left_out.items():
        if _plain(own) == name:
            return f"{own} in {folder.name} is left out: {why}"
    near = hint(name, [*files])
    return f"there is no file {name!r} in {folder.name}; {near}"
