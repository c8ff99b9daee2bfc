"""The commands: what each does, and its arguments and options."""

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from polydom.server.cli.app import app
from tools.generated_parts import table

# In the order in which one needs them.
ORDER = (
    "init",
    "check",
    "features",
    "check-fetches",
    "build",
    "measure",
    "select",
    "inspect",
    "plan",
    "predict",
    "evaluate",
    "score",
    "score-parts",
    "serve",
    "rollout",
    "warm",
)


def parts() -> dict[str, str]:
    """A part for each command, and a table of them all."""
    known = commands()
    first = table(
        ("command", "what"),
        ((f"[`{n}`](#polydom-{n})", summary(known[n])) for n in order(known)),
    )
    return {"commands": first, **{name: told(known[name]) for name in order(known)}}


def commands() -> dict[str, CommandInfo]:
    """Every command by its name."""
    found = {}
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        found[name] = command
    return found


def order(known: dict[str, CommandInfo]) -> list[str]:
    """All names, as they are told."""
    return sorted(known, key=ORDER.index)


def summary(command: CommandInfo) -> str:
    """First paragraph of what a command is for."""
    return " ".join((inspect.getdoc(command.callback) or "").split("\n\n")[0].split())


def told(command: CommandInfo) -> str:
    """What a command does, an example, its arguments and its options."""
    example = (command.epilog or "").removeprefix("Example: ")
    about = inspect.getdoc(command.callback) or ""
    named, given = list(options(command)), list(arguments(command))
    tables = [
        table(head, rows)
        for head, rows in (
            (("argument", "what"), given),
            (("option", "value", "default", "what"), named),
        )
        if rows
    ]
    return "\n\n".join((about, f"```sh\n{example}\n```", *tables))


def parameters(command: CommandInfo) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, type, what Typer knows, and default of each parameter."""
    assert command.callback is not None
    hints = get_type_hints(command.callback, include_extras=True)
    for name, parameter in inspect.signature(command.callback).parameters.items():
        kind, info = get_args(hints[name])[:2]
        yield name, kind, info, parameter.default


def arguments(command: CommandInfo) -> Iterator[tuple[str, str]]:
    """A row for each argument."""
    for name, _, info, default in parameters(command):
        if isinstance(info, ArgumentInfo):
            shown = info.metavar or name.upper()
            if default is not inspect.Parameter.empty and default is not None:
                shown = f"{shown}`, default `{default}"
            yield f"`{shown}`", info.help or ""


def options(command: CommandInfo) -> Iterator[tuple[str, str, str, str]]:
    """A row for each option."""
    for name, kind, info, default in parameters(command):
        if isinstance(info, OptionInfo):
            names = ", ".join(f"`{one}`" for one in option_names(name, kind, info))
            yield names, value(kind, info), shown_default(default), info.help or ""


def option_names(name: str, kind: Any, info: OptionInfo) -> list[str]:
    """What an option is called; one that is on or off may have a name for each."""
    # of what is annotated, Typer takes the first name for a default
    names = (info.default, *(info.param_decls or ()))
    given = [one for one in names if isinstance(one, str)]
    if given:
        return [one for both in given for one in both.split("/")]
    plain = name.replace("_", "-")
    return [f"--{plain}", f"--no-{plain}"] if kind is bool else [f"--{plain}"]


def value(kind: Any, info: OptionInfo) -> str:
    """What an option takes; nothing where it is on or off."""
    for inner in get_args(kind):
        if inner is not NoneType:
            more = ", repeatable" if get_origin(kind) is list else ""
            return value(inner, info) + more
    if kind is bool:
        return ""
    if issubclass(kind, Enum):
        return ", ".join(f"`{one.value}`" for one in kind)
    if info.metavar:
        return f"`{info.metavar}`"
    words = {int: "whole number", float: "number", Path: "path", str: "text"}
    return words[kind] + within(info)


def within(info: OptionInfo) -> str:
    """Between what a number lies."""
    if info.min is None:
        return ""
    if info.max is None:
        return f", at least {info.min:g}"
    return f", {info.min:g} to {info.max:g}"


def shown_default(default: Any) -> str:
    """An option's default; nothing where it is off, or says itself what else is."""
    if isinstance(default, bool):
        return "on" if default else ""
    if default is inspect.Parameter.empty:
        return "needed"
    if default is None or default == []:
        return ""
    if isinstance(default, Enum):
        default = default.value
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"`{shown}`"
