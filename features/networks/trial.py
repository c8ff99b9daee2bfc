"""Tries a network on made-up items of every size, before a build begins."""

import io

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature, PolydomError
from ..extract import Extractor
from ..items import SAMPLE_TEXT, Item, image_item, record_item, text_item
from .network import Network


def try_network(network: Network, where: str) -> None:
    """Compute all features of a network on made-up items, each twice.

    Raises BadFeature if the network fails, if its output has another width than for
    other items, is not finite, or differs the second time. `where` begins the message.
    """
    facts = network.facts
    failed = {k: why for k in range(facts.variants) if (why := _try(network, k))}
    if not failed:
        return
    fit = [k for k in range(facts.variants) if k not in failed]
    cure = ""
    if fit and facts.image is not None:
        cure = f"; sides = {[facts.image.sizes[k][0] for k in fit]} is possible"
    if fit and facts.text is not None:
        cure = f"; tokens = {[facts.text.tokens[k] for k in fit]} is possible"
    raise BadFeature(f"{where}: {next(iter(failed.values()))}{cure}")


def _try(network: Network, variant: int) -> str:
    """Return why a network cannot be used at a side or length; "" if it can."""
    widths = [piece.width for piece in network.facts.pieces]
    features = [network.feature(variant, piece) for piece in range(len(widths))]
    extractor = Extractor(features, widths)
    try:
        for what, item in _items(network, variant):
            extractor.check(item, what)
    except PolydomError as error:
        return str(error)
    return ""


def _items(network: Network, variant: int) -> list[tuple[str, Item]]:
    """Return items that differ as much as they may, each with what it is in words."""
    facts = network.facts
    if facts.image is not None:
        height, width = facts.image.sizes[variant]
        noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
        size = f"image of {width} x {height} pixels"
        return [
            (f"a white {size}", image_item(_png(np.full_like(noise, 255)))),
            (f"a drawn {size}", image_item(_png(noise))),
        ]
    if facts.text is not None:
        tokens = facts.text.tokens[variant]
        long = SAMPLE_TEXT * (tokens * 16 // len(SAMPLE_TEXT) + 1)
        most = f"a text of {tokens} tokens"
        texts = {"a text": SAMPLE_TEXT, "an empty text": "", most: long}
        return [(what, text_item(text)) for what, text in texts.items()]
    ones = {
        name: "" if own.dtype == "string" else 1
        for own in facts.record or []
        for name in own.columns
    }
    return [("a record of ones", record_item(ones))]


def _png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()
