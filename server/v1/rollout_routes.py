"""Routes by which an operator tries, promotes and drops candidates."""

import msgspec
from fastapi import Request, Response

from polydom.features.errors import BadInput
from polydom.features.wording import describe_decode_error

from ..http.body import SMALL_BODY, read_body
from ..http.headers import only_in
from ..http.reply import json_reply
from ..runtime.rollout.rollouts import Rollouts
from ..schema.rollout import RolloutAsk

ROLLOUT = "/v1/admin/rollout"


async def roll_out(request: Request) -> Response:
    """Answer `GET /v1/admin/rollout`, and `POST`: try, promote or drop a candidate.

    All workers follow.
    """
    state, headers = request.app.state, request.headers.raw
    state.inference.refuse_change(headers)
    only_in(request.scope["query_string"], ())
    if request.method != "POST":
        return json_reply(Rollouts(state.repository).facts())
    limit = min(SMALL_BODY, state.repository.settings.body_limit)
    with state.repository.held_bytes.body() as held:
        body = await read_body(request.receive, headers, limit, held)
    try:
        ask = msgspec.json.decode(body, type=RolloutAsk)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = describe_decode_error(error, RolloutAsk, document=body)
        raise BadInput(f"body: {said}") from error
    told = await Rollouts(state.repository).carry_out(ask)
    if ask.mode in ("promote", "roll_back"):
        state.inference.tell_others()
    elif state.tell_orders is not None:
        state.tell_orders()
    return json_reply(told)
