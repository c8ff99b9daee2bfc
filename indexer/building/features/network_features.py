"""Features that are pieces of networks, for images, texts, records and text columns."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, starmap
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from polydom.features.errors import BadItem, BadProject
from polydom.features.feature import Feature
from polydom.features.fingerprint import fingerprint
from polydom.features.networks.network import Network, Stage
from polydom.features.networks.open_network import open_network
from polydom.features.networks.terms import NetworkTerms
from polydom.features.tables.records import column_names
from polydom.features.wording import hint

from ...index.package import Package
from ...index.stored_features import StoredFeature, StoredText, find_piece
from ..costs.measured_items import spread_over_sizes
from ..data.dataset import Dataset
from ..project import Project
from .text_features import AS_TEXT, Found, TextColumns

COMPARED = 50  # images of which the scales are compared


class NetworkFeatures(NamedTuple):
    """The networks of a project, and their features."""

    networks: tuple[Network, ...] = ()
    found: tuple[Found, ...] = ()


def network_features(
    project: Project, dataset: Dataset, texts: TextColumns
) -> NetworkFeatures:
    """Open the networks that a project names, and return their features.

    A network of texts reads each of its columns of free text, if the items are records.
    Raises BadProject if a network is for other items, or names a column that is not
    there; and BadFeature if its file cannot be used.
    """
    networks, on_columns = [], []
    for one in project.features.networks:
        one = one.inside(project.folder)
        on_columns.append(_text_columns(one, dataset, texts))
        names = column_names(dataset.items) if dataset.kind == "record" else ()
        networks.append(open_network(one, names))
    networks = sharing_images(networks, dataset)
    pairs = zip(networks, on_columns, strict=True)
    found = chain.from_iterable(starmap(_features_of, pairs))
    return NetworkFeatures(tuple(networks), tuple(found))


def sharing_images(networks: Sequence[Network], dataset: Dataset) -> list[Network]:
    """Let all sides and networks share one decoded image, if that costs no side more.

    A JPEG is decoded at the smallest of four scales that has enough pixels for a side.
    So small photos are decoded faster for small sides. Large photos take the same scale
    for all sides, and other formats have one scale.
    """
    images = [one.facts.image for one in networks if one.facts.image is not None]
    sides = sorted({max(size) for image in images for size in image.sizes})
    if len(sides) < 2 or not _decode_alike(dataset, sides):
        return [*networks]
    side = sides[-1]
    shared = []
    for one in networks:
        if (image := one.facts.image) is not None:
            image = msgspec.structs.replace(image, shared=side)
            facts = msgspec.structs.replace(one.facts, image=image)
            one = replace(one, facts=facts)
        shared.append(one)
    return shared


def _decode_alike(dataset: Dataset, sides: Sequence[int]) -> bool:
    """Return True if most images are decoded at the same scale for all sides."""
    from polydom.features.ready_made.image_pixels import decoded_size

    alike = []
    for position in spread_over_sizes(dataset, COMPARED):
        data = dataset.items[position].payload
        assert isinstance(data, bytes)
        with suppress(BadItem):
            alike.append(len({decoded_size(data, side) for side in sides}) == 1)
    return sum(alike) * 2 > len(alike)


def _features_of(network: Network, columns: Sequence[StoredText]) -> Iterator[Found]:
    facts, reads = network.facts, network.reads
    for variant in range(facts.variants):
        for piece in range(len(facts.pieces)):
            stage = Stage(facts.name, variant, piece, reads)
            feature = network.feature(variant, piece)
            if not columns:
                yield _found(feature, stage)
            for text in columns:
                yield _found(text.put(feature), stage, text)


def _found(feature: Feature, stage: Stage, text: StoredText | None = None) -> Found:
    stored = StoredFeature(
        feature.name,
        0,
        fingerprint(feature),
        ready_made=True,
        text=text or UNSET,
        stage=stage,
    )
    return stored, feature


def _text_columns(
    terms: NetworkTerms, dataset: Dataset, texts: TextColumns
) -> list[StoredText]:
    """Return the columns of free text that a network of texts reads, if any."""
    where = f"[[features.networks]] {terms.name!r}"
    if terms.kind == dataset.kind:
        if terms.kind == "text" and terms.columns:
            raise BadProject(f"{where} has columns, and the items are texts")
        return []
    if (terms.kind, dataset.kind) != ("text", "record"):
        raise BadProject(
            f"{where} is for {terms.kind}s; the data's items are {dataset.kind}s"
        )
    if not texts.texts:
        raise BadProject(
            f"{where} reads texts, and no column holds free text; {AS_TEXT}"
        )
    for name in terms.columns:
        if name not in texts.texts:
            raise BadProject(
                f"{where} names the column {name!r}, which is no column of free text; "
                f"{hint(name, [*texts.texts], 0.4)}"
            )
    return [texts.texts[name] for name in terms.columns or texts.texts]


def without_unneeded(package: Package) -> Package:
    """Leave out the pieces of networks that no candidate of an index needs.

    The features of these pieces stay in the package, with the costs that were measured,
    and the fingerprints that they have without their pieces.
    """
    pieces: dict[str, set[int]] = {one.facts.name: set() for one in package.networks}
    for position in package.used:
        if (stage := package.features[position].stage) is not UNSET:
            pieces[stage.network].add(stage.piece)
    kept = {
        name: network.keeping(pieces[name])
        for name, network in zip(pieces, package.networks, strict=True)
    }
    features = []
    for stored in package.features:
        if stored.stage is not UNSET:
            made = find_piece(stored, stored.stage, package.learned, kept)
            own = fingerprint(stored.on_column(made))
            stored = msgspec.structs.replace(stored, fingerprint=own)
        features.append(stored)
    return replace(package, networks=tuple(kept.values()), features=tuple(features))
