"""A network as features: its steps, which its features share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature
from ..feature import Feature, Step
from .facts import NetworkFacts
from .inputs import Colours, ColumnTensors, ImageTensor, TextTokens
from .outside import needs_outside
from .pooled import PooledColumns, Projection, RunPiece
from .session import Bytes, File, Piece, import_library, refuse_absent

TOKENIZER = "tokenizer"


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which feature of which network of an index a stored feature is."""

    network: str  # Name of the network
    variant: int  # Position of the chain: of the side, or of the number of tokens
    piece: int  # Position of the piece
    columns: list[str] | None = None  # Columns that a network of records reads


@dataclass(frozen=True, eq=False)
class Network:
    """A network that was cut into pieces; immutable."""

    facts: NetworkFacts
    # (b,) uint8 each: ONNX models of the pieces; empty if an index needs none
    models: tuple[Bytes, ...]
    tokenizer: Bytes | None = None  # (b,) uint8: File of a tokenizer, of texts

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return models and tokenizer by name, to be stored."""
        named: dict[str, NDArray[Any]] = {
            str(k): model for k, model in enumerate(self.models)
        }
        return named if self.tokenizer is None else named | {TOKENIZER: self.tokenizer}

    @classmethod
    def load(cls, facts: NetworkFacts, arrays: Mapping[str, NDArray[Any]]) -> "Network":
        """Return a network of stored arrays; raise BadFeature if they do not fit.

        No library reads a model before it is run.
        """
        names = [str(k) for k in range(len(facts.pieces))]
        needed = {*names, TOKENIZER} if facts.kind == "text" else {*names}
        if arrays.keys() != needed:
            raise BadFeature("its models are not its pieces")
        for name, array in arrays.items():
            if array.dtype != np.uint8 or array.ndim != 1:
                raise BadFeature(f"{name} is no file")
        network = cls(facts, tuple(arrays[n] for n in names), arrays.get(TOKENIZER))
        network.check()
        return network

    def check(self) -> None:
        """Raise BadFeature if facts contradict each other, or a piece needs a file."""
        self.facts.check()
        for position, model in enumerate(self.models):
            if needs_outside(model.tobytes()):
                raise BadFeature(f"piece {position} needs a file outside the index")

    def needed(self, pieces: Iterable[int]) -> set[int]:
        """Return the pieces that have to run for some pieces, and these."""
        found, left = set[int](), [*pieces]
        while left:
            piece = left.pop()
            found.add(piece)
            left += self.facts.pieces[piece].after
        return found

    def keeping(self, pieces: Iterable[int]) -> "Network":
        """Return the network without the models that none of some pieces needs.

        Their arrays are empty. So is the tokenizer if there are no pieces.
        """
        needed = self.needed(pieces)
        models = [m if k in needed else m[:0] for k, m in enumerate(self.models)]
        tokenizer = self.tokenizer
        if tokenizer is not None and not needed:
            tokenizer = tokenizer[:0]
        return replace(self, models=tuple(models), tokenizer=tokenizer)

    def refuse_absent(self) -> None:
        """Raise BadFeature if a library or an execution provider is not here.

        A network without models needs none of them.
        """
        if not any(map(len, self.models)):
            return
        refuse_absent(self.facts.providers, f"network {self.facts.name!r}: ")
        if self.facts.text is not None:
            import_library("tokenizers")

    @property
    def reads(self) -> list[str] | None:
        """Columns that a network of records reads; None for images and texts."""
        if self.facts.record is None:
            return None
        return [name for one in self.facts.record for name in one.columns]

    @cached_property
    def _pieces(self) -> list[Piece]:
        """The pieces, each with one session, which all chains share."""
        return [Piece(File(model), self.facts.providers) for model in self.models]

    @cached_property
    def _tokenizer(self) -> File:
        """The tokenizer's file, which all chains share."""
        assert self.tokenizer is not None
        return File(self.tokenizer)

    def open(self) -> None:
        """Make all sessions, and read the tokenizer, so that no item waits for them.

        Raises BadFeature if a library cannot read a piece, or the tokenizer.
        """
        try:
            for position, piece in enumerate(self._pieces):
                where = f"network {self.facts.name!r}, piece {position + 1}"
                if len(piece.model.content):
                    _ = piece.session
            where = f"network {self.facts.name!r}, tokenizer"
            if self.tokenizer is not None and len(self.tokenizer):
                for begin, _ in self._chains:
                    _ = begin.function.ready  # type: ignore[attr-defined]
        except BadFeature as error:
            raise BadFeature(f"{where}: {error}") from error

    @cached_property
    def _chains(self) -> list[tuple[Step, list[Step]]]:
        """For each variant, the step of the input and the steps of the pieces."""
        return [self._chain(variant) for variant in range(self.facts.variants)]

    def _chain(self, variant: int) -> tuple[Step, list[Step]]:
        begin, steps = self._input(variant), list[Step]()
        for position, (facts, piece) in enumerate(
            zip(self.facts.pieces, self._pieces, strict=True)
        ):
            needs = [begin] * bool(facts.inputs) + [steps[k] for k in facts.after]
            name = self.facts.feature_name(variant, position)
            function = RunPiece(facts, piece)
            made = Step(f"{name} map", self.facts.kind, tuple(needs), function)
            steps.append(made)
        return begin, steps

    def _input(self, variant: int) -> Step:
        facts = self.facts
        if facts.image is not None:
            needs = (decode_step(facts.image.decoded(variant)),)
            name = f"{facts.name} pixels {max(facts.image.sizes[variant])}"
            return Step(name, "image", needs, ImageTensor(facts.image, variant))
        if facts.text is not None:
            tokens = TextTokens(facts.text, variant, self._tokenizer)
            name = f"{facts.name} tokens {facts.text.tokens[variant]}"
            return Step(name, "text", (), tokens)
        assert facts.record is not None
        return Step(f"{facts.name} input", "record", (), ColumnTensors(facts.record))

    def feature(
        self, variant: int, piece: int, projection: Projection | None = None
    ) -> Feature:
        """Return the feature of a piece in a chain, reduced by a projection, if any.

        Features of one network share their steps. Raises BadFeature if there is no such
        chain or piece, or if the projection is of another number of columns.
        """
        facts = self.facts
        if not (0 <= variant < facts.variants and 0 <= piece < len(facts.pieces)):
            raise BadFeature(f"network {facts.name!r} has no such piece")
        own = facts.pieces[piece]
        if projection is not None and len(projection.mean) != own.width:
            raise BadFeature(
                f"a projection of {len(projection.mean)} columns is on a piece of "
                f"{own.width}"
            )
        begin, steps = self._chains[variant]
        filled = facts.text is not None and facts.text.padded
        masked = filled and own.of_tokens == "mean"
        needs = (steps[piece], begin) if masked else (steps[piece],)
        function = PooledColumns(own, projection)
        name = facts.feature_name(variant, piece)
        return Feature(name, facts.kind, needs, function)


@cache
def decode_step(side: int) -> Step:
    """Return the step that decodes an image; all networks share it for one side."""
    return Step(f"colours {side}", "image", (), Colours(side))
