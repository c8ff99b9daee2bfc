"""What is told of the networks of a project or of an index."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from polydom.features.items import Kind
from polydom.features.networks.network import Network

from .stored_features import StoredFeature


class ToldPiece(msgspec.Struct, frozen=True):
    """A piece of a network, whose output is a feature."""

    name: str
    work: float  # Share of the network's multiplications done after it, in (0, 1]
    columns: int
    reduced: int | None  # Number of columns after a reduction; None if all stay
    kept: bool  # False if no candidate of the index needs it


class ToldNetwork(msgspec.Struct, frozen=True):
    """A network whose pieces are features."""

    name: str
    kind: Kind  # Kind of what it reads
    inputs: list[str]  # Its sizes in pixels, its lengths in tokens, or its columns
    bytes: int  # Bytes of its pieces and its tokenizer
    pieces: list[ToldPiece]

    def line(self) -> str:
        """Return the facts as a sentence."""
        unit = {"image": " pixels", "text": " tokens", "record": ""}[self.kind]
        inputs = ", ".join(self.inputs) + unit
        pieces = ", ".join(f"{one.name} ({_columns_of(one)})" for one in self.pieces)
        return (
            f"network {self.name!r} reads {self.kind}s of {inputs}; pieces, with their "
            f"columns: {pieces}; {self.bytes / 1e6:,.2g} MB"
        )


def _columns_of(piece: ToldPiece) -> str:
    words = f"{piece.columns:,}"
    if piece.reduced is not None:
        words += f", reduced to {piece.reduced:,}"
    return words if piece.kept else f"{words}; left out, since no set needs it"


def networks_of(
    networks: Iterable[Network], features: Sequence[StoredFeature]
) -> list[ToldNetwork]:
    """Return what is told of the networks of an index with these features."""
    told = []
    for network in networks:
        reduced = {
            one.stage.piece: one.width
            for one in features
            if one.stage is not UNSET
            and one.stage.network == network.facts.name
            and one.reduced is not UNSET
        }
        told.append(told_network(network, reduced))
    return told


def told_network(network: Network, reduced: Mapping[int, int]) -> ToldNetwork:
    """Return what is told of a network; `reduced` has the columns of reduced pieces."""
    facts = network.facts
    inputs = network.reads or []
    if facts.image is not None:
        inputs = [f"{width} x {height}" for height, width in facts.image.sizes]
    elif facts.text is not None:
        inputs = [str(tokens) for tokens in facts.text.tokens]
    size = sum(model.nbytes for model in network.models)
    if network.tokenizer is not None:
        size += network.tokenizer.nbytes
    pieces = [
        ToldPiece(name, own.work, own.width, reduced.get(k), bool(model.size))
        for k, (name, own, model) in enumerate(
            zip(facts.stages, facts.pieces, network.models, strict=True)
        )
    ]
    return ToldNetwork(facts.name, facts.kind, inputs, size, pieces)
