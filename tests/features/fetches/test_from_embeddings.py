"""Fetches of vectors from a real server that speaks OpenAI's protocol."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from polydom.features.errors import BadFetch, FetchFailed
from polydom.features.fetches.posts import LONGEST_BODY
from tests.support.fetch_files import load_text

SECONDS = 20_000  # ms, so that a busy machine decides no test
KEY = "sk-very-secret-key"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def of_text(text: str) -> list[float]:
    """The vector of a text, of 3 numbers that float32 holds exactly."""
    return [len(text), text.count(" ") / 2, -0.25]


def packed(numbers: list[float]) -> str:
    return b64encode(np.array(numbers, "<f4").tobytes()).decode()


class Service:
    """A service of embeddings: it keeps what it was asked, and may be told to refuse.

    Parameters
    ----------
    base64
        What it does if asked for base64: "sends", "ignores" or "refuses" it.
    """

    def __init__(self, base64: str = "sends", longest: int = 99) -> None:
        self.base64 = base64
        self.longest = longest  # characters of a text
        self.asked: list[Any] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        texts, wanted = body["input"], body.get("encoding_format")
        if wanted and self.base64 == "refuses":
            said = f"unsupported: {{'encoding_format': {wanted!r}, {texts!r}}}"
            return web.json_response({"error": {"message": said}}, status=400)
        if any(not text or len(text) > self.longest for text in texts):
            return web.json_response(
                {"message": f"a text has more than {self.longest} tokens"}, status=400
            )
        shape = packed if wanted and self.base64 == "sends" else list
        vectors = [
            {"object": "embedding", "index": k, "embedding": shape(of_text(text))}
            for k, text in enumerate(texts)
        ]
        return web.json_response({"object": "list", "data": vectors[::-1]})

    @property
    def sizes(self) -> list[int]:
        """How many texts each request had."""
        return [len(body["input"]) for body in self.asked]


def ask(
    folder: Path,
    answer: Answer,
    *calls: list[Any],
    left_s: float = 0.1,
    **terms: Any,
) -> list[Any]:
    """What each call brings from such a server: its error, vectors as lists or None."""
    given = {"width": 3, "model": "m", "at_most_ms": SECONDS, **terms}

    async def use() -> list[Any]:
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/v1/embeddings", answer)
        async with TestServer(application) as server:
            lines = [
                f"embeddings = '{server.make_url('/v1/embeddings')}'",
                f"headers = {{ Authorization = 'Bearer {KEY}' }}",
                *(f"{term} = {written(value)}" for term, value in given.items()),
            ]
            asked = load_text(folder, "\n".join(["[embedding]", *lines]))["embedding"]
            found: list[Any] = []
            try:
                for items in calls:
                    try:
                        one = await asked.bring([(item,) for item in items], left_s)
                    except FetchFailed as failure:
                        found.append(failure)
                    else:
                        found.append([*map(plain, one)])
            finally:
                assert asked.close is not None
                await asked.close()
            return found

    return asyncio.run(use())


def written(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + " }"
        )
    return json.dumps(value)


def plain(brought: Any) -> Any:
    if not isinstance(brought, dict):
        return brought
    assert brought["embedding"].dtype == np.float32
    return brought["embedding"].tolist()


def saying(body: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        raw = body if isinstance(body, bytes | str) else json.dumps(body)
        raw = raw if isinstance(raw, bytes) else raw.encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=raw, status=status, headers=named)

    return answer


TEXTS = ["one", "two words", "é ü"]
VECTORS = [*map(of_text, TEXTS)]


@pytest.mark.parametrize("base64", ["sends", "ignores", "refuses"])
def test_vectors_come_in_the_order_of_the_texts(tmp_path: Path, base64: str) -> None:
    service = Service(base64)
    assert ask(tmp_path, service.answer, TEXTS, TEXTS) == [VECTORS, VECTORS]
    plain = {"input": TEXTS, "model": "m"}
    asked = [plain | {"encoding_format": "base64"}] * 2
    if base64 == "refuses":
        asked = [asked[0], plain, plain]
    assert service.asked == asked


def test_base64_is_not_asked_for_if_the_file_says_so(tmp_path: Path) -> None:
    service = Service("refuses")
    terms: Any = {"base64": False, "dimensions": True, "extra": {"input_type": "query"}}
    assert ask(tmp_path, service.answer, TEXTS, **terms) == [VECTORS]
    members = {"model": "m", "dimensions": 3, "input_type": "query"}
    assert service.asked == [{"input": TEXTS, **members}]


def test_the_key_goes_with_each_request(tmp_path: Path) -> None:
    came = []

    async def answer(request: web.Request) -> web.StreamResponse:
        came.append(request.headers["Authorization"])
        return await Service().answer(request)

    assert ask(tmp_path, answer, TEXTS, model="") == [VECTORS]
    assert came == [f"Bearer {KEY}"]


def test_an_empty_text_has_no_vector_and_is_not_sent(tmp_path: Path) -> None:
    service = Service()
    found = ask(tmp_path, service.answer, ["", "one", " \n"], [""])
    assert found == [[None, of_text("one"), None], [None]]
    assert service.sizes == [1]


def test_half_a_character_is_sent_as_a_replaced_one(tmp_path: Path) -> None:
    service = Service()
    assert ask(tmp_path, service.answer, ["a\ud800", "\ud83d\ude00"]) == [
        [of_text("a\ufffd"), of_text("\N{GRINNING FACE}")]
    ]
    assert service.asked[0]["input"] == ["a\ufffd", "\N{GRINNING FACE}"]


@pytest.mark.parametrize("base64", ["sends", "refuses"])
def test_a_text_that_is_refused_harms_no_other(tmp_path: Path, base64: str) -> None:
    service = Service(base64)
    bad = "x" * 100
    ((first, failure, last),) = ask(tmp_path, service.answer, ["one", bad, "two words"])
    assert [first, last] == VECTORS[:2]
    assert isinstance(failure, FetchFailed)
    assert "status 400; 200 is needed: a text has more than 99 tokens" in str(failure)
    assert service.sizes.count(3) <= 2


def test_a_refused_text_alone_fails_the_call_until_the_service_answered(
    tmp_path: Path,
) -> None:
    service, bad = Service(), "x" * 100
    failed, good, later = ask(tmp_path, service.answer, [bad], ["one"], [bad])
    assert isinstance(failed, FetchFailed)
    assert good == [of_text("one")]
    assert isinstance(later[0], FetchFailed)


def test_a_call_whose_texts_are_all_refused_has_failed(tmp_path: Path) -> None:
    service, bad = Service(), "x" * 100
    _, failed = ask(tmp_path, service.answer, ["one"], [bad, bad + "y"])
    assert isinstance(failed, FetchFailed)
    assert service.sizes == [1, 2, 1, 1]


def test_a_text_that_hangs_when_alone_harms_no_other(tmp_path: Path) -> None:
    service = Service()

    async def answer(request: web.Request) -> web.StreamResponse:
        if (await request.json())["input"] == ["slow"]:
            await asyncio.sleep(60)
        return await service.answer(request)

    texts = ["one", "slow", "x" * 100]
    ((first, slow, bad),) = ask(tmp_path, answer, texts, at_most_ms=1000)
    assert first == of_text("one")
    assert "no answer within " in str(slow)
    assert "status 400" in str(bad)


def test_a_service_may_leave_out_an_index(tmp_path: Path) -> None:
    data = [{"embedding": [1, 2, 3]}, {"index": 1, "embedding": [4, 5, 6.5]}]
    assert ask(tmp_path, saying({"data": data}), ["a", "b"]) == [
        [[1, 2, 3], [4, 5, 6.5]]
    ]


def of(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": k, "embedding": one} for k, one in enumerate(vectors)]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (saying("no", 500), "answered with status 500; 200 is needed: no"),
        (
            saying({"error": {"message": "wait"}}, 429, Retry_After="7"),
            "(Retry-After: 7); 200 is needed: wait",
        ),
        (
            saying({"error": {"message": f"bad key {KEY}"}}, 401),
            "with status 401; 200 is needed",
        ),
        (
            saying({"error": {"message": f"bad key {KEY}"}}, 500),
            "with status 500; 200 is needed",
        ),
        (
            saying({"detail": [{"input": "first text"}]}, 404),
            "with status 404; 200 is needed",
        ),
        (
            saying({"message": "first text is bad"}, 404),
            "with status 404; 200 is needed",
        ),
        (saying("", 307, Location="http://h:1/x"), "with status 307; 200 is needed"),
        (saying("<html>"), 'another body than {"data": [...]}: '),
        (saying({"embeddings": [[1, 2, 3]] * 2}), "'data' is missing"),
        (saying('{"data": [{"embedding": [NaN]}]}'), 'another body than {"data": '),
        (saying(of([1, 2, 3])), "with 1 vectors to 2 texts; one for each is needed"),
        (saying(of(*[[1, 2, 3]] * 3)), "with 3 vectors to 2 texts"),
        (saying({"data": [{"index": 1, "embedding": []}] * 2}), "and its index"),
        (saying({"data": [{"index": -1, "embedding": []}] * 2}), "and its index"),
        (saying(of([1, 2], [1, 2])), "with vectors of 2 numbers; the width of the fet"),
        (saying(of(packed([1, 2, 3, 4]), [1, 2, 3])), "with vectors of 4 numbers"),
        (saying(b" " * 99_999), "answered with more than 0.06"),
    ],
    # not the functions, whose names are addresses
    ids=lambda value: value if isinstance(value, str) else "answer",
)
def test_other_answers_are_refused(
    tmp_path: Path, answer: Answer, message: str
) -> None:
    (failed,) = ask(tmp_path, answer, ["first text", "second text"])
    assert isinstance(failed, FetchFailed)
    assert str(failed).startswith("fetch 'embedding': 127.0.0.1:")
    assert message in str(failed)
    assert KEY not in str(failed)
    assert "first text" not in str(failed)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1, None, 3], "something else than a list of numbers or their base64"),
        ([1, [2], 3], "something else than a list"),
        (None, "something else than a list"),
        ("AAA", "something else than a list"),
        ("AAAA", "something else than a list"),
        ("ÿÿÿÿ", "something else than a list"),
        (packed([1, float("nan"), 3]), "returned nan as number 1 for an item"),
        ([1, 1e300, 3], "returned inf as number 1 for an item"),
    ],
    ids=str,
)
def test_an_unusable_vector_fails_for_its_text_alone(
    tmp_path: Path, vector: Any, message: str
) -> None:
    ((first, failure),) = ask(tmp_path, saying(of([1, 2, 3], vector)), ["a", "b"])
    assert first == [1, 2, 3]
    assert isinstance(failure, FetchFailed)
    assert message in str(failure)


def test_the_limit_of_a_body_grows_with_its_vectors(tmp_path: Path) -> None:
    numbers = [-1.2345678901234567 / 2**k for k in range(32)] * 128
    body = json.dumps(of(*[numbers] * 72), indent=2)
    assert len(body) > LONGEST_BODY
    (found,) = ask(tmp_path, saying(body), [str(k) for k in range(72)], width=4096)
    assert found[71] == np.array(numbers, np.float32).tolist()


def test_a_body_that_stops_in_the_middle_is_given_up(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"data": [')
        await asyncio.sleep(60)
        return response

    (failed,) = ask(tmp_path, answer, ["a"], at_most_ms=300)
    assert "no answer within " in str(failed)


def test_a_build_waits_longer_than_a_server(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return web.json_response(of([1, 2, 3]))

    (late,) = ask(tmp_path, answer, ["a"], at_most_ms=100)
    assert isinstance(late, FetchFailed)
    found = ask(tmp_path, answer, ["a"], at_most_ms=100, left_s=20)
    assert found == [[[1, 2, 3]]]


def test_images_are_sent_in_base64(tmp_path: Path) -> None:
    came: list[bytes] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        for one in (await request.json())["input"]:
            came.append(b64decode(one["image"]))
        return web.json_response(of([1, 2, 3], [4, 5, 6]))

    images = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]
    found = ask(tmp_path, answer, images, kind="image")
    assert found == [[[1, 2, 3], [4, 5, 6]]]
    assert came == images


def test_a_refused_image_is_not_quoted(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        said = f"cannot decode {(await request.json())['input'][0]['image']}"
        return web.json_response({"detail": said}, status=422)

    (failed,) = ask(tmp_path, answer, [b"\x89PNG\r\n\x1a\n" * 9], kind="image")
    assert str(failed).endswith("answered with status 422; 200 is needed")


def test_the_fetch_has_a_kind_a_width_and_a_smaller_batch(tmp_path: Path) -> None:
    address = "embeddings = 'http://h/v1/embeddings'\n"
    made = load_text(tmp_path, f"[a]\n{address}width = 384\n")["a"]
    assert (made.kind, made.width, made.batch) == ("text", 384, 16)
    assert (made.key, made.columns) == ((), ())
    assert made.bound_to_items("text", 384) is made


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("", "'width' is missing"),
        ("width = 0", "width is 0; a whole number from 1 to 4096 is needed"),
        ("width = 1.5", "width: expected int, got float"),
        ("width = 3\nkey = ['id']", "has a key; one of embeddings has none"),
        ("width = 3\nkind = 'record'", "'record' came"),
        ("width = 3\nmodle = 'm'", "'modle' is unknown; did you mean 'model'?"),
    ],
)
def test_mistakes_in_terms_are_told(tmp_path: Path, terms: str, message: str) -> None:
    with pytest.raises(BadFetch) as raised:
        load_text(tmp_path, f"[a]\nembeddings = 'http://h/'\n{terms}\n")
    assert message in str(raised.value)
