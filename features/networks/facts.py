"""What an index says of a network: plain data, in the header of the file."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..items import Kind
from .terms import CPU, Colours, Resize

Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=1, le=1 << 16)]
Axis = Annotated[int, Meta(ge=1, le=7)]
OfImage = Literal["float32", "float16", "uint8"]
OfText = Literal["int64", "int32"]
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
    width: Annotated[int, Meta(ge=1)]  # Number of columns, before a reduction
    # Share of the network's multiplications that are done after this piece, in (0, 1]
    work: Annotated[float, Meta(gt=0, le=1)]


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


class TextFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a text becomes the inputs of a network."""

    tokens: Annotated[list[Size], Meta(min_length=1)]  # Most tokens of each chain
    padded: bool  # True if the network needs exactly so many tokens
    inputs: list[TextInput]  # What each input of the network gets
    dtypes: list[OfText]


class ColumnsFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How columns of a record become one input of a network."""

    columns: Annotated[list[str], Meta(min_length=1)]
    dtype: OfRecord
    flat: bool  # True for a vector without the axis of columns


class NetworkFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network of an index; its models and its tokenizer are stored as arrays.

    Exactly one of `image`, `text` and `record` is set, by the kind of items.
    """

    name: str
    kind: Kind
    stages: list[str]  # Names of the pieces, as they end the names of features
    pieces: Annotated[list[PieceFacts], Meta(min_length=1)]
    image: ImageFacts | None = None
    text: TextFacts | None = None
    record: list[ColumnsFacts] | None = None
    providers: tuple[str, ...] = (CPU,)

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
