"""Reports of an index or an evaluation, each a single self-contained HTML file."""

import base64
import hashlib
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.outputs import head_of, refuse_output
from polydom.indexer.index.file.safe_write import replace_when_done

from .assets import STATIC, fill, join_modules

CHARTS = "uplot/uPlot.iife.min.js"
MARK = b'<meta name="generator" content="polydom">'
STYLES = ("uplot/uPlot.min.css", "style.css")


def refuse_report(path: Path) -> None:
    """Raise BadInput if a report cannot be written to `path`.

    A file at `path` may only be replaced if it is an earlier report.
    """
    refuse_output(path, "a report", _is_own, example="report.html", option="--html")


def _is_own(path: Path) -> bool:
    return MARK in head_of(path)


def write_report(path: Path, name: str, title: str, facts: Any) -> None:
    """Write an HTML report to a file, which appears only when it is complete.

    `name` is the kind of report: "index_report" or "evaluation_report". `facts` is the
    data that the report shows. Pass file names through `readable` before they become
    part of `title`, because they may not be UTF-8.
    """
    text = make_report(name, title, facts)
    with replace_when_done(path) as file:
        file.write(text.encode())


def make_report(name: str, title: str, facts: Any) -> str:
    """Return a report as HTML; the parameters are those of `write_report`."""
    style = "\n".join(_read(one) for one in STYLES)
    charts, script = _read(CHARTS), join_modules(f"{name}.js")
    # a "</script>" in the data would end the script
    data = msgspec.json.encode(facts).decode().replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {_hash(charts)} {_hash(script)}; "
        f"style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return fill(
        "report.html",
        policy=policy,
        title=escape(title),
        style=style,
        body=fill(f"{name}.html"),
        version=version("polydom"),
        facts=data,
        uplot=charts,
        script=script,
    )


def _read(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def _hash(content: str) -> str:
    """Return the hash by which a content security policy allows a script or style."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
