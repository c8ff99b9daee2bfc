"""Fetches from Feast's feature server, which has features of entities by their keys.

    POST {"feature_service": "fraud_v1", "entities": {"driver_id": [1001, 1002]}}
    200  {"metadata": {"feature_names": ["driver_id", "trips"]},
          "results": [{"values": [1001, 1002], "statuses": ["PRESENT", "PRESENT"]},
                      {"values": [3, null], "statuses": ["PRESENT", "NOT_FOUND"]}]}

Feast converts the values of keys to the types of its entities, and tells in its answer
what it looked up. A key that it looked up as another one has nothing: of 1001.5, Feast
makes 1001. If one key cannot be converted, as a text for a number, Feast refuses the
whole call. So once an answer told the types, such a key has nothing, and is not sent:
it must not make the calls fail in which it travels with the keys of others.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..errors import BadFetch, FetchFailed
from ..items import Value
from ..wording import describe_decode_error, hint
from .fetch import Columns, Fetch, Key
from .posts import Posts
from .terms import Terms

# Feast's server in Go tells the statuses only if it is asked to.
PATH = "/get-online-features?status=true"
PRESENT = "PRESENT"
# What Feast says where a number or a time is missing.
GAPS = ("NaN", -(2**63))
WHOLE = re.compile(r"-?\d{1,18}")


class FeastTerms(Terms, kw_only=True):
    """Terms of a fetch from Feast; either `service` or `features` is given.

    Attributes
    ----------
    feast
        Address of a feature server, as `feast serve` starts one, that begins with
        `http://` or `https://`. It may hold environment variables.
    service
        Name of a feature service. Its features are the columns.
    features
        Instead of `service`, the features, as in `["driver_stats:trips"]`. The part
        behind the colon names the column.
    full_feature_names
        True if the view is a part of the columns' names, as in `driver_stats__trips`.
    headers
        Headers of each request. Values may hold environment variables.
    """

    feast: str
    service: str | None = None
    features: list[str] = msgspec.field(default_factory=list)
    full_feature_names: bool = False
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class _Request(msgspec.Struct, omit_defaults=True):
    entities: Mapping[str, Sequence[Value]]
    feature_service: str | None = None
    features: list[str] = msgspec.field(default_factory=list)
    full_feature_names: bool = False


class _Feature(msgspec.Struct):
    values: list[Any]
    statuses: list[str]


class _Metadata(msgspec.Struct):
    feature_names: list[str]


class _Answer(msgspec.Struct):
    metadata: _Metadata
    results: list[_Feature]


_decode = msgspec.json.Decoder(_Answer).decode


def feast_fetch(name: str, terms: FeastTerms) -> Fetch:
    """Make a fetch from Feast; raise BadFetch if its terms cannot be used."""
    if (not terms.service) == (not terms.features):
        both = "both service and" if terms.service else "neither service nor"
        raise BadFetch(f"fetch {name!r} has {both} features; one of them is needed")

    def connect(key: Columns, columns: Columns) -> Fetch:
        terms.check_key(name, key)
        told = name, "feast", terms.feast, terms.headers, terms, PATH
        posts = Posts(*told, reads=True)
        ask = _Feast(posts, terms, key, columns).ask
        return terms.made(name, key, columns, ask, posts.session.close, connect)

    return connect(tuple(terms.key), ())


class _Feast:
    """The calls of one fetch."""

    def __init__(
        self, posts: Posts, terms: FeastTerms, key: Columns, columns: Columns
    ) -> None:
        self.posts = posts
        self.terms = terms
        self.key = key
        self.columns = columns
        self.whole: set[str] = set()  # columns of the key that are whole numbers

    async def ask(self, keys: Sequence[Key], left_s: float) -> list[Any]:
        """Return the features of each key."""
        fit = [self._fits(key) for key in keys]
        sent = [key for key, fits in zip(keys, fit, strict=True) if fits]
        if not sent:
            return [None] * len(keys)
        entities = dict(zip(self.key, zip(*sent, strict=True), strict=True))
        terms = self.terms
        wanted = terms.service, terms.features, terms.full_feature_names
        request = msgspec.json.encode(_Request(entities, *wanted))
        features = self._read(await self.posts.send(request), len(sent))
        found = iter(self._by_key(sent, features))
        return [next(found) if fits else None for fits in fit]

    def _fits(self, key: Key) -> bool:
        """Return False for a key for which there is nothing, or that Feast refuses."""
        return None not in key and all(
            WHOLE.fullmatch(str(value))
            for column, value in zip(self.key, key, strict=True)
            if column in self.whole
        )

    def _read(self, body: bytes, count: int) -> dict[str, _Feature]:
        """Return each feature's values, one for each key, with None where none is."""
        try:
            answer = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FetchFailed(
                f"{self._source} answered with another body than Feast's: "
                f"{describe_decode_error(error, _Answer, body)}"
            ) from error
        names, features = answer.metadata.feature_names, answer.results
        lengths = {
            len(column) for one in features for column in (one.values, one.statuses)
        }
        if len(names) != len(features) or lengths != {count}:
            raise FetchFailed(
                f"{self._source} has not answered with a value and a status for each "
                "feature and key"
            )
        for one in features:
            one.values = [
                value if status == PRESENT and value not in GAPS else None
                for value, status in zip(one.values, one.statuses, strict=True)
            ]
        return dict(zip(names, features, strict=True))

    def _by_key(self, keys: Sequence[Key], features: dict[str, _Feature]) -> list[Any]:
        columns = self.columns or tuple(one for one in features if one not in self.key)
        for column in columns:
            if column not in features:
                raise FetchFailed(
                    f"{self._source} has no feature {column!r}; "
                    f"{hint(column, [*features])}"
                )
        other = self._looked_up_as_others(keys, features)
        rows = zip(*(features[column].values for column in columns), strict=True)
        there = zip(*(features[column].statuses for column in columns), strict=True)
        return [
            dict(zip(columns, row, strict=True))
            if PRESENT in said and not wrong
            else None
            for row, said, wrong in zip(rows, there, other, strict=True)
        ]

    def _looked_up_as_others(
        self, keys: Sequence[Key], features: Mapping[str, _Feature]
    ) -> list[bool]:
        """Return whether Feast took each key for another; learn the keys' types."""
        wrong = [False] * len(keys)
        for place, column in enumerate(self.key):
            if column in features:
                values = features[column].values
                if type(values[0]) is int:
                    self.whole.add(column)
                for k, (key, value) in enumerate(zip(keys, values, strict=True)):
                    wrong[k] |= str(key[place]) != str(value)
        return wrong

    @property
    def _source(self) -> str:
        return f"fetch {self.posts.name!r}: {self.posts.place}"
