"""Write the parts of two pages that list files: architecture.md and read-first.md.

python -m tools.draw_architecture            writes the pages' parts, and two pictures
python -m tools.draw_architecture --check    exits with 1 where a page is out of date
"""

import ast
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.generated_parts import ROOT, table, write

ROOMS = ("features", "models", "indexer", "server")

# What is on the way of one `/v1/predict`, and of one `polydom build`. One before it
# imports each, or the picture is refused.
REQUEST = (
    "server.cli.serving.serve",
    "server.ops.server",
    "server.http.protocol",
    "server.http.parsing_connection",
    "server.http.answering_connection",
    "server.http.connection",
    "server.http.raw_request",
    "server.app",
    "server.v1.predict",
    "server.v1.decode",
    "server.runtime.repository",
    "server.runtime.served_model",
    "server.runtime.translator",
    "server.runtime.record_decoder",
    "server.runtime.record_answerer",
    "server.runtime.work_queue",
    "server.runtime.job",
    "server.engine.executions.execution",
    "server.engine.planning.planner",
    "server.engine.executions.anytime_execution",
    "indexer.index.next_feature",
    "server.engine.monitoring.cost_drift",
    "indexer.index.index",
    "indexer.index.size_lookup",
    "indexer.index.package",
    "features.extract",
    "server.engine.request",
    "server.http.reply",
)
BUILD = (
    "server.cli.building.build",
    "indexer.building.build",
    "indexer.building.project",
    "indexer.building.resources",
    "indexer.building.prepare",
    "indexer.building.data.read_items",
    "indexer.building.terms",
    "indexer.building.divide_items",
    "indexer.building.features.choose_features",
    "indexer.building.features.feature_values",
    "indexer.building.features.learn_features",
    "indexer.building.learner_race",
    "indexer.building.costs.measure_costs",
    "indexer.building.training.search.search_sets",
    "indexer.building.training.train_sets",
    "indexer.building.candidates",
    "indexer.building.training.refit",
    "indexer.building.exits.plan_exits",
    "indexer.building.package_index",
    "indexer.index.file.pdx_file",
)
# The core, in the order in which a newcomer reads it.
TWELVE = (
    "features.feature",
    "features.extract",
    "features.costs.curve",
    "indexer.set_search.poly_dom",
    "indexer.skyline.skylines",
    "indexer.index.size_lookup",
    "indexer.index.package",
    "models.qwyc.algorithms",
    "models.early_exit.early_exits",
    "server.engine.planning.planner",
    "server.engine.executions.execution",
    "server.v1.predict",
)


def modules() -> dict[str, Path]:
    """All modules of the rooms, packages too: dotted names from the root, and files."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


def sentence(path: Path) -> str:
    """First paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def imported(name: str, known: Mapping[str, Path]) -> set[str]:
    """Modules of the rooms that a module imports, wherever in it."""
    path = known[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            base = base.removeprefix("polydom.")
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found |= {whole if whole in known else base} & set(known)
    return found - {name}


def floors() -> dict[str, list[list[str]]]:
    """The folders of each room, floor by floor from the top, by import-linter's rules.

    A folder whose files lie on several floors is on the highest of them.
    """
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = rules["tool"]["importlinter"]["contracts"]
    layers = {contract["name"]: contract.get("layers") for contract in contracts}
    found: dict[str, list[list[str]]] = {}
    for room in ROOMS:
        seen: set[str] = set()
        found[room] = []
        for layer in layers[f"Inside {room}"]:
            names = dict.fromkeys(name.split(".")[0] for name in layer.split(" | "))
            row = [n for n in names if n not in seen and (ROOT / room / n).is_dir()]
            seen.update(row)
            found[room] += [row] if row else []
    return found


WIDTH, FLOOR, GAP, HEAD = 170, 26, 22, 34


def picture() -> str:
    """All folders: a column for each room, that may use what is left of it or below."""
    columns = floors()
    height = HEAD + FLOOR * max(map(len, columns.values())) + 12
    width = (WIDTH + GAP) * len(ROOMS) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, room in enumerate(ROOMS):
        left = place * (WIDTH + GAP)
        middle = left + WIDTH / 2
        parts += [
            f'<rect x="{left + 1}" y="1" width="{WIDTH - 2}" height="{height - 2}" '
            'rx="6" fill="#f3f6f9" stroke="#9aa5b1"/>',
            f'<text x="{middle}" y="22" font-weight="bold">{room}</text>',
        ]
        if place:
            parts.append(f'<text x="{left - GAP / 2}" y="22">&#8592;</text>')
        top = height - 6 - FLOOR * len(columns[room])
        for floor, row in enumerate(columns[room]):
            share = (WIDTH - 16) / len(row)
            for at, name in enumerate(row):
                x, y = left + 8 + at * share, top + floor * FLOOR
                parts += [
                    f'<rect x="{x + 1:g}" y="{y}" width="{share - 2:g}" height="22" '
                    'rx="3" fill="#dbeafe" stroke="#26303a" stroke-width=".6"/>',
                    f'<text x="{x + share / 2:g}" y="{y + 15}">{name}</text>',
                ]
    return "\n".join([*parts, "</svg>", ""])


def way(names: Iterable[str], known: Mapping[str, Path]) -> str:
    """Modules in the order in which they are reached; one before imports each."""
    names = list(names)
    edges = {n: imported(n, known) & set(names) for n in names}
    for at, name in enumerate(names[1:], 1):
        if not any(name in edges[before] for before in names[:at]):
            raise SystemExit(f"{name} is not imported by anything before it")
    rows = ((f"`{n.replace('.', '/')}.py`", sentence(known[n])) for n in names)
    return table(("file", "what it is"), rows)


def rooms(known: Mapping[str, Path]) -> str:
    """A line for each package: where it is, and its sentence."""
    packages = (
        (f"`{name.replace('.', '/')}/`", sentence(path))
        for name, path in known.items()
        if path.name == "__init__.py" and name not in ROOMS
    )
    return table(("room", "what it is"), packages)


def twelve() -> dict[str, str]:
    """The part of read-first.md: each of the twelve files, and its sentence."""
    known = modules()
    rows = ((f"`{n.replace('.', '/')}.py`", sentence(known[n])) for n in TWELVE)
    return {"twelve": table(("file", "what it is"), rows)}


OVERVIEW = (
    (
        ("labelled items", "PROJECT.toml"),
        ("build", "indexer/building/build.py"),
        ("index", "a .pdx file"),
    ),
    (
        ("item and budget", "POST /v1/predict"),
        ("plan, compute, exit", "server/engine/"),
        ("answer in time", "label, scores, what it took"),
    ),
)
BOX, HIGH, BETWEEN = 200, 52, 60


def overview() -> str:
    """Draw the two ways: items become an index, and an index answers requests."""
    width, height = 3 * BOX + 2 * BETWEEN + 8, 2 * HIGH + BETWEEN + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13" text-anchor="middle">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    for row, boxes in enumerate(OVERVIEW):
        for column, (title, place) in enumerate(boxes):
            x, y = 4 + column * (BOX + BETWEEN), 4 + row * (HIGH + BETWEEN)
            middle = x + BOX / 2
            parts += [
                f'<rect x="{x}" y="{y}" width="{BOX}" height="{HIGH}" rx="6" '
                'fill="#dbeafe" stroke="#26303a"/>',
                f'<text x="{middle:g}" y="{y + 22}" font-weight="bold">{title}</text>',
                f'<text x="{middle:g}" y="{y + 40}" font-size="11">{place}</text>',
            ]
            if column:
                parts.append(_arrow(x - BETWEEN, y + HIGH / 2, x, y + HIGH / 2))
    index = 4 + 2 * (BOX + BETWEEN) + BOX / 2
    plan = 4 + BOX + BETWEEN + BOX / 2
    parts.append(_arrow(index, 4 + HIGH, plan, 4 + HIGH + BETWEEN))
    return "\n".join([*parts, "</svg>", ""])


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return (
        f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="#26303a" '
        'stroke-width="1.5" marker-end="url(#tip)"/>'
    )


def parts() -> dict[str, str]:
    """Every generated part of architecture.md, by its name."""
    known = modules()
    return {
        "rooms": rooms(known),
        "request": way(REQUEST, known),
        "build": way(BUILD, known),
    }


PAGES = {
    ROOT / "docs/explanation/architecture.md": parts,
    ROOT / "docs/explanation/read-first.md": twelve,
}
PICTURES = {"floors.svg": picture, "overview.svg": overview}


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        for name, draw in PICTURES.items():
            (ROOT / "docs/pictures" / name).write_text(draw(), "utf-8")
    raise SystemExit(write(PAGES))
