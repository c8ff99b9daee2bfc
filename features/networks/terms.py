"""What a user writes to make a network a feature: `[[features.networks]]`."""

import math
import os
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from ..errors import BadProject
from ..items import Kind
from ..wording import describe_decode_error

Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$")]
Side = Annotated[int, Meta(ge=16, le=4096)]
Tokens = Annotated[int, Meta(ge=2, le=8192)]
Colours = Literal["rgb", "bgr"]
Resize = Literal["stretch", "crop"]
Pool = Literal["mean", "first"]
CPU = "CPUExecutionProvider"
# Keys that are for one kind of items only.
KEYS_OF: dict[Kind, tuple[str, ...]] = {
    "image": ("sides", "mean", "std", "scale"),
    "text": ("tokenizer", "tokens"),
}


class NetworkTerms(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True
):
    """A network as features, as a user describes it.

    Attributes
    ----------
    name
        Name of the network. Its features are named `NAME_1`, `NAME_2` and so on, in the
        order of the network's pieces; if there are several sides or lengths, these are
        in the name too, as in `NAME_128_1`.
    file
        ONNX file, beside the project file; or an https address, from which a build
        fetches the file once.
    kind
        Kind of the items: "image", "text", or "record", for columns of a table.
    sha256
        SHA-256 of the file in hexadecimal; needed for an address.
    outputs
        Names of the tensors at which the network is cut, in order. "auto" cuts it at up
        to four places, and at its end. "end" does not cut it.
    names
        Names of the pieces, as many as `outputs`, instead of 1, 2 and so on.
    pool
        How a piece's output becomes columns: the "mean" over places of an image or over
        tokens, or the "first" token.
    most_columns
        Most columns of a feature. Wider features are reduced by a principal component
        analysis, which the build fits on the training items, with folds on all items. 0
        never reduces: training then takes many times as long.
    sides
        Of images: pixels a side of the network's input, one chain of features for each.
        By default the side that the file states, or else those of 128 and 224 that the
        network can take.
    mean
        Of images: what is subtracted from red, green and blue, in the unit that `scale`
        gives. By default nothing.
    std
        Of images: what red, green and blue are divided by then. By default 1.
    scale
        Of images: factor of the pixels' values 0 to 255. By default 1/255, and 1 for a
        network that takes bytes.
    colours
        Of images: order of the colours. A network of one channel gets grey levels.
    resize
        Of images: "stretch" to the network's input, or "crop" the largest centred part
        that has its proportions.
    tokenizer
        Of texts: file of the library `tokenizers`, usually `tokenizer.json`.
    tokens
        Of texts: most tokens that are read, one chain of features for each.
    columns
        Of records: names of the columns that are the network's input, in its order. By
        default its inputs have the names of columns. Of texts in a table: the columns
        of free text that it reads; by default all.
    providers
        Execution providers of ONNX Runtime, the preferred one first.
    """

    name: Name
    file: str
    kind: Kind
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    outputs: Literal["auto", "end"] | list[str] = "auto"
    names: list[str] = []
    pool: Pool = "mean"
    most_columns: Annotated[int, Meta(ge=0)] = 64
    sides: list[Side] = []
    mean: list[float] = []
    std: list[Annotated[float, Meta(gt=0)]] = []
    scale: Annotated[float, Meta(gt=0)] | None = None
    colours: Colours = "rgb"
    resize: Resize = "stretch"
    tokenizer: str | None = None
    tokens: list[Tokens] = []
    columns: list[str] = []
    providers: Annotated[tuple[str, ...], Meta(min_length=1)] = (CPU,)

    @property
    def fetched(self) -> bool:
        """True if `file` is an address, not a path."""
        return "://" in self.file

    def inside(self, folder: str | os.PathLike[str]) -> Self:
        """Return the same terms with paths that begin in `folder`."""
        file, tokenizer = self.file, self.tokenizer
        if not self.fetched:
            file = os.path.join(folder, file)
        if tokenizer is not None:
            tokenizer = os.path.join(folder, tokenizer)
        return msgspec.structs.replace(self, file=file, tokenizer=tokenizer)

    def check(self) -> None:
        """Raise BadProject if two keys do not go together."""
        where = f"[[features.networks]] {self.name!r}"
        self._check_files(where)
        self._check_kind(where)
        for key in ("mean", "std"):
            values = getattr(self, key)
            if len(values) not in (0, 1, 3) or not all(map(math.isfinite, values)):
                raise BadProject(
                    f"{where} has {key} = {values}; three numbers are needed, of red, "
                    "green and blue, or one for grey levels"
                )
        self._check_lists(where)

    def _check_files(self, where: str) -> None:
        if self.fetched and not self.file.startswith("https://"):
            raise BadProject(
                f"{where} has file = {self.file!r}; a path, or an address that begins "
                "with https:// is needed"
            )
        if self.fetched and self.sha256 is None:
            raise BadProject(
                f"{where} names an address and no sha256: what comes from there is "
                "used only if its checksum is the one that is known"
            )
        if self.tokenizer is not None and "://" in self.tokenizer:
            raise BadProject(
                f"{where} has tokenizer = {self.tokenizer!r}; a path is needed: only "
                "file may be an address"
            )

    def _check_kind(self, where: str) -> None:
        for kind, keys in KEYS_OF.items():
            for key in keys:
                if kind != self.kind and getattr(self, key):
                    raise BadProject(
                        f"{where} has {key}, which is for {kind}s, and kind = "
                        f'"{self.kind}"'
                    )
        if self.kind == "image" and self.columns:
            raise BadProject(f"{where} has columns, and images have none")
        if self.kind == "text" and self.tokenizer is None:
            raise BadProject(
                f"{where} reads texts, and no tokenizer is named: tokenizer = "
                '"tokenizer.json", the file that was published with the network'
            )

    def _check_lists(self, where: str) -> None:
        for key in ("sides", "tokens", "outputs", "names", "columns"):
            values = getattr(self, key)
            if len({*values}) < len(values) and not isinstance(values, str):
                raise BadProject(f"{where} has {key} = {values}: one comes twice")
        if self.outputs == []:
            raise BadProject(f'{where} has no outputs; "auto" finds some')
        cuts = None if isinstance(self.outputs, str) else len(self.outputs)
        if self.names and cuts is not None and len(self.names) != cuts:
            raise BadProject(
                f"{where} has {len(self.names)} names for {cuts} outputs; as many are "
                "needed"
            )


def network(name: str, file: str | os.PathLike[str], **terms: object) -> NetworkTerms:
    """Describe a network that is to be features of a `BudgetClassifier`.

    Parameters
    ----------
    name
        Name of the network, with which its features' names begin.
    file
        Path of an ONNX file. Relative paths begin in the working folder.
    **terms
        Keys of `[[features.networks]]` in PROJECT.toml, such as `kind="image"`.

    Raises
    ------
    BadProject
        If a key is unknown or has a wrong value, or keys do not go together.

    Examples
    --------
    >>> network("lite0", "lite0.onnx", kind="image", sides=[128]).sides
    [128]
    """
    try:
        made = msgspec.convert(
            {"name": name, "file": os.fspath(file), **terms}, NetworkTerms
        )
    except msgspec.ValidationError as error:
        said = describe_decode_error(error, NetworkTerms)
        raise BadProject(f"network {name!r}: {said}") from error
    made.check()
    return made.inside(os.getcwd())
