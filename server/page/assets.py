"""Files of the web pages, served at paths that contain a hash of their content.

A page loads nothing from other servers. It contains no data: its scripts request the
data from this server, with a token if the server needs one.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

STATIC = Path(__file__).with_name("static")
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
# The browser may run only this server's files, and may show only these files and items
# that the user chooses.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
# Sections that several pages include, one file each; a page names them in braces.
SECTIONS = ("buys", "curves")
_PLACE = re.compile(r"\{(\w+)\}")
_IMPORT = re.compile(r'^import\s[^;]*?from "\./([\w/.]+)";\n', re.MULTILINE)


class Assets:
    """The web pages, and the scripts and styles that they load.

    `files` are the scripts and styles by name. Their path, `folder`, contains a hash of
    all their bytes, so that browsers may cache them without a time limit.
    """

    def __init__(self) -> None:
        self.files = dict(_read_files())
        digest = hashlib.sha256()
        for name, content in self.files.items():
            digest.update(b"%s %d " % (name.encode(), len(content)) + content)
        self.folder = f"page/{digest.hexdigest()[:16]}"

    def page(self, name: str) -> bytes:
        """Return a page such as `index.html`, with its scripts' path filled in."""
        return fill(name, assets=self.folder).encode()


def _read_files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in KINDS and path.suffix != ".html":
            yield path.relative_to(STATIC).as_posix(), path.read_bytes()


def fill(name: str, **contents: str) -> str:
    """Return the HTML file `name`; fill in `{key}` from `contents` or `SECTIONS`."""
    known = contents | {
        one: (STATIC / f"{one}.html").read_text("utf-8") for one in SECTIONS
    }
    return _PLACE.sub(lambda found: known[found[1]], (STATIC / name).read_text("utf-8"))


def join_modules(name: str) -> str:
    """Return one script with the JavaScript module `name` and all that it imports.

    Every import must be a statement `import ... from "./other.js";` at the beginning of
    a line, without `as`. No two modules may define the same name.
    """
    joined: dict[str, str] = {}

    def add(name: str) -> None:
        text = (STATIC / name).read_text("utf-8")
        for other in _IMPORT.findall(text):
            if other not in joined:
                add(other)
        plain = _IMPORT.sub("", text)
        joined[name] = re.sub(r"^export ", "", plain, flags=re.MULTILINE)

    add(name)
    return "\n".join(joined.values())
