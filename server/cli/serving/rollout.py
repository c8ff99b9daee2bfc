"""The command that tries a new index on a running server: `polydom rollout`."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ..options import AsJson

if TYPE_CHECKING:
    from ...client.sync import Client
    from ...schema.rollout import RolloutAsk, RolloutsFacts

# Number of tries while the server refuses an order under load, and their distance.
TRIES, RETRY_S = 20, 1.0
SHOWN = 12  # characters of a version


class Order(StrEnum):
    """What is to become of the candidate; `show` changes nothing."""

    SHOW = "show"
    SHADOW = "shadow"
    CANARY = "canary"
    OFF = "off"
    PROMOTE = "promote"
    ROLL_BACK = "roll-back"


def rollout(
    order: Annotated[
        Order,
        typer.Argument(
            help="show what is tried; shadow: compare the candidate's answers to a "
            "share of the requests, and send none; canary: let the candidate answer a "
            "share of the requests; off: none; promote: let it answer all; roll-back: "
            "go back to the index of before."
        ),
    ] = Order.SHOW,
    share: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Share of the requests; for shadow, by default all."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help="Header whose value decides: requests with the same value go to the "
            "same version.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model; default: the first.")
    ] = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Address of the server.")
    ] = "http://127.0.0.1:8000",
    admin_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of the server's admin tokens, of which the first is sent.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try the candidate of a running server, promote it, or go back.

    The server must run with --candidate and --admin-token-file. All its workers follow.
    """
    from ...client.sync import Client
    from ...http.bearer_tokens import read_tokens
    from ...schema.rollout import RolloutAsk

    ask = None
    if order is not Order.SHOW:
        mode: Any = order.replace("-", "_")
        ask = RolloutAsk(mode, model, share, by)  # which the server checks
    tokens = [] if admin_token_file is None else read_tokens(admin_token_file)
    with Client(url, token=tokens[0] if tokens else None) as client:
        told = _order(client, ask)
    if as_json:
        typer.echo(msgspec.json.encode(told).decode())
    else:
        _show(told)


def _order(client: "Client", ask: "RolloutAsk | None") -> "RolloutsFacts":
    """Give an order; while the server refuses it under load, try again each second."""
    from ...errors import Overloaded

    for _ in range(TRIES - 1):
        try:
            return client.roll_out(ask)
        except Overloaded:
            time.sleep(RETRY_S)
    return client.roll_out(ask)


def _show(told: "RolloutsFacts") -> None:
    for one in told.models:
        current, candidate = (v and v[:SHOWN] for v in (one.version, one.candidate))
        by = f" by {one.by}" if one.by else ""
        mode = one.mode if one.mode == "off" else f"{one.mode} {one.share:g}{by}"
        typer.echo(f"{one.name}: current {current}, candidate {candidate}, {mode}")
    if told.note:
        typer.echo(told.note)
