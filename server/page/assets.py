"""Files of the pages: read once, named by their content, under a strict policy.

A page loads nothing from other servers, and holds no data: its scripts ask for them.
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
# A browser may run only this server's files, and show only these and chosen items.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
# Sections that pages share, each a file; pages name them in braces.
SECTIONS = ("buys", "curves")
_PLACE = re.compile(r"\{(\w+)\}")
_IMPORT = re.compile(r'^import\s[^;]*?from "\./([\w/.]+)";\n', re.MULTILINE)


class Assets:
    """Scripts and styles of the pages, and the pages themselves.

    The server has the `files` in a `folder` named by a digest of their contents, so
    that a browser may keep them for ever.
    """

    def __init__(self) -> None:
        self.files = dict(_read_files())
        digest = hashlib.sha256()
        for name, content in self.files.items():
            digest.update(b"%s %d " % (name.encode(), len(content)) + content)
        self.folder = f"page/{digest.hexdigest()[:16]}"

    def page(self, name: str) -> bytes:
        """Return a page, such as `index.html`, with its files' paths filled in."""
        return fill(name, assets=self.folder).encode()


def _read_files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in KINDS and path.suffix != ".html":
            yield path.relative_to(STATIC).as_posix(), path.read_bytes()


def fill(name: str, **contents: str) -> str:
    """Return a page with the sections and `contents` that it names in braces."""
    known = contents | {
        one: (STATIC / f"{one}.html").read_text("utf-8") for one in SECTIONS
    }
    return _PLACE.sub(lambda found: known[found[1]], (STATIC / name).read_text("utf-8"))


def join_modules(name: str) -> str:
    """Join a module and all modules that it imports to one script, in order.

    Every import must be a statement `import ... from "./other.js";` at the beginning of
    a line, without new names, and no two modules may define the same name.
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
