"""Options of `polydom serve` that come from a TOML file or POLYDOM_* variables."""

import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from polydom.features.errors import BadInput
from polydom.features.wording import hint, nearest

PREFIX = "POLYDOM_"
FILE_VARIABLE = "POLYDOM_SETTINGS"
# If a Kubernetes service is called polydom, its pods get variables such as
# POLYDOM_PORT=tcp://10.0.0.1:8000. Such values are not options.
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
CLOSE = 0.7  # similarity from which a variable counts as a misspelt option


class Setting(NamedTuple):
    """The value of an option, a text or a list of texts, and the value's source."""

    name: str
    value: str | list[str]
    source: str


def read_settings(
    ctx: typer.Context, own: typer.CallbackParam, path: Path | None
) -> Path | None:
    """Set the defaults of options from the file `path` and from POLYDOM_* variables.

    Variables take precedence over the file. This is the callback of the option for the
    file, `own`, so it runs before the other options are read.
    """
    options = {str(one.name): one for one in ctx.command.params if one.name != own.name}
    lists = {name for name, one in options.items() if _takes_several(one)}
    found = [
        *(_in_file(path, options.keys()) if path is not None else ()),
        *_in_environment(options.keys()),
    ]
    defaults = {}
    for name, value, source in found:
        if isinstance(value, str) and name in lists:
            value = value.split(os.pathsep)
        try:
            options[name].process_value(ctx, value)
        except typer.BadParameter as error:
            raise BadInput(f"{source}: {error.message}") from error
        defaults[name] = value
    ctx.default_map = defaults
    return path


def _takes_several(option: Any) -> bool:
    """Return True for a repeatable option, or an argument that takes several values."""
    return option.nargs != 1 or getattr(option, "multiple", False)


def _in_file(path: Path, names: Collection[str]) -> Iterator[Setting]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise BadInput(f"{path}: {error}; settings are TOML") from error
    for name, value in values.items():
        if name not in names:
            raise BadInput(f"{path}: unknown key {name!r}; {hint(name, sorted(names))}")
        if isinstance(value, dict):
            raise BadInput(f"{path}: {name} is a table; a plain value is needed")
        # convert to text, because flags and variables give text, too
        texts = [*map(str, value)] if isinstance(value, list) else str(value)
        yield Setting(name, texts, f"{path}: {name}")


def _in_environment(names: Collection[str]) -> Iterator[Setting]:
    """Yield settings from POLYDOM_* variables; print a hint for misspelt names."""
    for variable, text in os.environ.items():
        if not variable.startswith(PREFIX) or _SERVICE_LINK.match(text) or not text:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in names:
            yield Setting(name, text, f"{variable}={text}")
        elif variable != FILE_VARIABLE and (near := nearest(name, names, CLOSE)):
            meant = f"{PREFIX}{near.upper()}"
            print(f"polydom: {variable} sets nothing; {meant} does", file=sys.stderr)
