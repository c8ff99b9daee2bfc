"""Draw the pictures of docs/explanation/architecture.md from what the modules import.

python -m tools.draw_architecture            writes them
python -m tools.draw_architecture --check    exits with 1 where they are out of date
"""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.generated_parts import ROOT, table, write

ROOMS = ("features", "models", "indexer", "server")

# What is on the way of one `/v1/predict`, and of one `polydom build`. One before it
# imports each, or the picture is refused.
REQUEST = (
    "server.cli.serve",
    "server.ops.server",
    "server.http.protocol",
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
    "server.engine.execution",
    "server.engine.planner",
    "indexer.index.next_feature",
    "server.engine.cost_drift",
    "indexer.index.index",
    "indexer.index.lookup",
    "indexer.index.package",
    "features.extract",
    "server.engine.outcome",
    "server.http.reply",
)
BUILD = (
    "indexer.commands.app",
    "indexer.building.build",
    "indexer.building.project",
    "indexer.building.data.read_items",
    "indexer.building.data.dataset",
    "indexer.building.choose_features",
    "indexer.building.feature_values",
    "indexer.building.measure_costs",
    "indexer.building.learner_race",
    "indexer.building.training.search_sets",
    "indexer.set_search.poly_dom",
    "indexer.set_search.greedy",
    "indexer.building.training.train_sets",
    "indexer.building.fit_exits",
    "indexer.index.index",
    "indexer.index.pdx_file",
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


def reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same reachability in the fewest edges (the graph has no circles)."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        open_ = list(edges[start])
        while open_:
            node = open_.pop()
            if node not in seen:
                seen.add(node)
                open_ += edges[node]
        return seen

    beyond = {node: reach(node) for node in edges}
    return {
        node: {to for to in targets if not any(to in beyond[by] for by in targets)}
        for node, targets in edges.items()
    }


def floors(known: Mapping[str, Path]) -> str:
    """Every subpackage, an arrow to each that it stands on directly."""
    packages = [
        name
        for name, path in known.items()
        if path.name == "__init__.py" and name.count(".") == 1
    ]
    edges: dict[str, set[str]] = {name: set() for name in packages}
    for name in known:
        own = ".".join(name.split(".")[:2])
        for other in imported(name, known):
            to = ".".join(other.split(".")[:2])
            if own in edges and to in edges and to != own:
                edges[own].add(to)
    lines = ["flowchart TB"]
    for room in reversed(ROOMS):
        lines.append(f"  subgraph {room}")
        lines += [f"    {p}[{p.split('.')[1]}]" for p in packages if p.startswith(room)]
        lines.append("  end")
    for node, targets in reduced(edges).items():
        lines += [f"  {node} --> {to}" for to in sorted(targets)]
    return mermaid(lines)


def way(names: Iterable[str], known: Mapping[str, Path]) -> str:
    """Modules in the order in which they are reached, and who imports whom of them."""
    names = list(names)
    lines = ["flowchart TB"]
    lines += [f'  {n}["<b>{n}</b><br/>{plain(sentence(known[n]))}"]' for n in names]
    edges = {n: imported(n, known) & set(names) for n in names}
    for at, name in enumerate(names[1:], 1):
        if not any(name in edges[before] for before in names[:at]):
            raise SystemExit(f"{name} is not imported by anything before it")
    for name, targets in reduced(edges).items():
        lines += [f"  {name} --> {to}" for to in sorted(targets)]
    return mermaid(lines)


def plain(text: str) -> str:
    """Leave out what a picture's labels cannot hold."""
    return text.replace('"', "'").replace("`", "").rstrip(".")


def rooms(known: Mapping[str, Path]) -> str:
    """A line for each package: where it is, and its sentence."""
    packages = (
        (f"`{name.replace('.', '/')}/`", sentence(path))
        for name, path in known.items()
        if path.name == "__init__.py" and name not in ROOMS
    )
    return table(("room", "what it is"), packages)


def mermaid(lines: list[str]) -> str:
    return "\n".join(["```mermaid", *lines, "```"])


def parts() -> dict[str, str]:
    """Every generated part of the page, by its name."""
    known = modules()
    return {
        "rooms": rooms(known),
        "floors": floors(known),
        "request": way(REQUEST, known),
        "build": way(BUILD, known),
    }


PAGES = {ROOT / "docs/explanation/architecture.md": parts}


if __name__ == "__main__":
    raise SystemExit(write(PAGES))
