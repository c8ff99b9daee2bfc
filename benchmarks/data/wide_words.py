"""A feature of very many columns: a bag of words whose linear sum is long."""

from polydom.features import feature
from polydom.features.ready_made.text import in_buckets, word_hashes


@feature(needs=[word_hashes])
def wide_vocabulary(word_hashes):  # type: ignore[no-untyped-def]
    """Bag of words in 8,192 buckets."""
    return in_buckets(word_hashes, 8192)
