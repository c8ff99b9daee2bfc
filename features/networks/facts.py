"""What an index says of a network: plain data, in the header of the file."""

import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import BadFeature
from ..items import Kind
from .terms import CPU, Colours, Name, Resize

MOST_SIDE = 4096  # pixels a side of a network's input
MOST_TOKENS = 8192
MOST_WIDTH = 4096  # columns of a feature, before it is reduced
OF_PLACES: tuple[list[int], ...] = ([], [1, 2], [2, 3])  # axes of height and width

Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=1, le=MOST_SIDE)]
Length = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
Axis = Annotated[int, Meta(ge=1, le=7)]
OfImage = Literal["float32", "float16", "uint8"]
OfText = Literal["int64", "int32", "float32", "bool"]
OfRecord = Literal["float32", "float64", "int64", "int32", "string"]
TextInput = Literal["ids", "mask", "types"]


class PieceFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One piece: what it reads, and how its output becomes columns."""

    inputs: list[Count]  # Positions of the network's inputs that the piece reads
    # Positions of the earlier pieces whose outputs it reads
    after: list[Count]
    # Axes of the output over which columns are means; none if it is a vector
    axes: list[Axis]
    # How columns come from an output with a vector for each token: the mean over the
    # tokens of the text, or the vector of the first token; None for other outputs
    of_tokens: Literal["mean", "first"] | None
    # Number of columns, before a reduction
    width: Annotated[int, Meta(ge=1, le=MOST_WIDTH)]
    # Share of the network's multiplications that are done after this piece, in (0, 1]
    work: Annotated[float, Meta(gt=0, le=1)]

    def check(self, kind: Kind, inputs: int, earlier: int) -> None:
        """Raise BadFeature if a piece cannot be one of a network.

        `inputs` is the number of the network's inputs, and `earlier` of the pieces
        before this one.
        """
        if not (self.inputs or self.after):
            raise BadFeature("reads nothing")
        for read, count in ((self.inputs, inputs), (self.after, earlier)):
            if read != sorted({*read}) or any(position >= count for position in read):
                raise BadFeature(f"reads {read} of {count} before it")
        places = OF_PLACES if kind == "image" else OF_PLACES[:1]
        if self.axes not in places or (self.of_tokens and self.axes):
            raise BadFeature(f"has no places at axes {self.axes}")
        if self.of_tokens and kind == "record":
            raise BadFeature("has no tokens")


class ImageFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an image becomes the input of a network."""

    sizes: Annotated[list[tuple[Size, Size]], Meta(min_length=1)]  # Heights and widths
    channels: Literal[1, 3]
    channels_last: bool
    dtype: OfImage
    # Factor of each channel's bytes, and what is added then, one number per channel
    factors: list[float]
    offsets: list[float]
    colours: Colours
    resize: Resize
    # Least pixels a side of one decoded image for all sides and networks of an index; 0
    # if each side has a decoded image of its own
    shared: Annotated[int, Meta(ge=0, le=MOST_SIDE)] = 0

    def decoded(self, variant: int) -> int:
        """Return the least pixels a side of the decoded image for one of `sizes`."""
        return max(self.shared, *self.sizes[variant])

    def check(self) -> None:
        """Raise BadFeature if channels are not scaled by finite numbers."""
        numbers = [*self.factors, *self.offsets]
        counts = {len(self.factors), len(self.offsets)}
        if counts != {self.channels} or not all(map(math.isfinite, numbers)):
            raise BadFeature("its channels are not scaled by as many numbers")


class TextFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a text becomes the inputs of a network."""

    tokens: Annotated[list[Length], Meta(min_length=1)]  # Most tokens of each chain
    padded: bool  # True if the network needs exactly so many tokens
    inputs: list[TextInput]  # What each input of the network gets
    dtypes: list[OfText]

    def check(self) -> None:
        """Raise BadFeature if its inputs are not told apart, or have other types."""
        if len(self.inputs) != len(self.dtypes) or "ids" not in self.inputs:
            raise BadFeature("its inputs are not those of a text")
        if len({*self.inputs}) < len(self.inputs):
            raise BadFeature("two of its inputs are the same")


class ColumnsFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How columns of a record become one input of a network."""

    columns: Annotated[list[str], Meta(min_length=1)]
    dtype: OfRecord
    flat: bool  # True for a vector without the axis of columns


class NetworkFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network of an index; its models and its tokenizer are stored as arrays.

    Exactly one of `image`, `text` and `record` is set, by the kind of items.
    """

    name: Name
    kind: Kind
    stages: list[str]  # Names of the pieces, as they end the names of features
    pieces: Annotated[list[PieceFacts], Meta(min_length=1)]
    image: ImageFacts | None = None
    text: TextFacts | None = None
    record: list[ColumnsFacts] | None = None
    providers: tuple[str, ...] = (CPU,)

    def check(self) -> None:
        """Raise BadFeature if facts contradict each other."""
        own = {"image": self.image, "text": self.text, "record": self.record}
        if [kind for kind, one in own.items() if one is not None] != [self.kind]:
            raise BadFeature("its inputs are not those of its kind of items")
        counts = {len({*self.stages}), len(self.stages), len(self.pieces)}
        if len(counts) > 1:
            raise BadFeature("its names are not its pieces")
        inputs = 1
        if self.image is not None:
            self.image.check()
        elif self.text is not None:
            self.text.check()
            inputs = len(self.text.inputs)
        elif self.record is not None:
            inputs = len(self.record)
        for position, piece in enumerate(self.pieces):
            try:
                piece.check(self.kind, inputs, position)
            except BadFeature as error:
                raise BadFeature(f"piece {position} {error}") from None

    @property
    def variants(self) -> int:
        """Number of chains of features: one for each side, or number of tokens."""
        if self.image is not None:
            return len(self.image.sizes)
        return 1 if self.text is None else len(self.text.tokens)

    def feature_name(self, variant: int, piece: int) -> str:
        """Return a feature's name: `lite0_2`, or `lite0_128_2` of several sides."""
        if self.variants == 1:
            return f"{self.name}_{self.stages[piece]}"
        if self.image is not None:
            return f"{self.name}_{self.image.sizes[variant][0]}_{self.stages[piece]}"
        assert self.text is not None
        return f"{self.name}_{self.text.tokens[variant]}_{self.stages[piece]}"
