"""What a network's file holds, and the places at which the network can be cut."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from polydom.features.errors import printable
from polydom.features.items import Kind


def show_network(
    file: Path, kind: Kind | None, tokenizer: Path | None, as_json: bool
) -> None:
    """Print a network's inputs and outputs, and the places at which it can be cut."""
    told = _network_facts(file, kind, tokenizer)
    if as_json:
        typer.echo(json.dumps(told))
        return
    for line in _network_lines(file, told):
        typer.echo(printable(line))


def _network_facts(
    file: Path, kind: Kind | None, tokenizer: Path | None
) -> dict[str, Any]:
    """Return what a network reads, what it gives, and the places, as plain data."""
    from polydom.features.networks.guess import guess_terms
    from polydom.features.networks.open_network import pooling_of, read_network

    terms = guess_terms(file, kind, tokenizer)
    read = read_network(terms)
    graph, values = read.cutter.graph, read.cutter.values
    auto = read.cutter.automatic(read.end)
    return {
        "kind": terms.kind,
        "inputs": [one._asdict() for one in graph.inputs],
        "outputs": [
            {
                "name": name,
                "dtype": values[name].dtype.name,
                "shape": values[name].shape,
            }
            for name in graph.outputs
            if name in values
        ],
        "tried_with": [[*one.shape] for one in read.tensors[: len(graph.inputs)]],
        "places": [
            {
                "tensor": place.tensor,
                "operator": place.operator,
                "work": place.work,
                "shape": place.shape,
                "columns": pooling_of(read.facts, terms.pool, place.shape).width,
                "auto": place.tensor in auto,
            }
            for place in read.cutter.places(read.end)
        ],
    }


def _network_lines(file: Path, told: dict[str, Any]) -> Iterator[str]:
    yield f"{file} reads {told['kind']}s:"
    for way in ("input", "output"):
        for one in told[f"{way}s"]:
            yield f"  {way} {one['name']}: {one['dtype']} {_form(one['shape'])}"
    tried = ", ".join(dict.fromkeys(map(_form, told["tried_with"])))
    yield f'places to cut it, for the input {tried}; outputs = "auto" takes those of *'
    rows = [("work", "columns", "operator", "shape", " ", "tensor")]
    rows += [
        (
            f"{place['work']:.1%}",
            f"{place['columns']:,}",
            place["operator"],
            _form(place["shape"]),
            "*" if place["auto"] else " ",
            place["tensor"],
        )
        for place in told["places"]
    ]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)][:-1]
    for work, columns, *cells, tensor in rows:  # not cut off: names are to be copied
        numbers = f"{work:>{widths[0]}}  {columns:>{widths[1]}}"
        words = "  ".join(map(str.ljust, cells, widths[2:]))
        yield f"  {numbers}  {words} {tensor}"


def _form(shape: Sequence[int | None]) -> str:
    axes = ", ".join("n" if axis is None else str(axis) for axis in shape)
    return f"({axes})"
