"""The share of a text's words that a learned feature does not know."""

from .learned_text import TermWeights
from .text import lowered, word_hashes, words

FIRST = 512  # characters of a text whose words are looked up


def unseen_share(learned: TermWeights, text: str) -> float | None:
    """Return the share of a text's words that are no learned terms; None without words.

    Only the words that end within the first characters of a text are looked up. The
    learned terms must include single words.
    """
    found = words(lowered(text[:FIRST]))
    if len(text) > FIRST:
        found = found[:-1]  # may be cut
    if not found or not len(learned.hashes):
        return None
    hashes = word_hashes(found)
    places = learned.hashes.searchsorted(hashes)
    known = learned.hashes.take(places, mode="clip") == hashes
    return 1 - float(known.mean())
