"""The pages' files: read once, told apart by what they hold, under a strict policy.

A page asks nobody but this server, and works where there is no other. It holds no data:
what it shows it asks for, with a token where one is needed.
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
# Of what may be fetched and run: this server's own files, and items that are chosen.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
# Sections that pages share, each in a file of its own, and what else stands in braces.
SECTIONS = ("buys", "curves")
_PLACE = re.compile(r"\{(\w+)\}")
_IMPORT = re.compile(r'^import\s[^;]*?from "\./([\w/.]+)";\n', re.MULTILINE)


class Assets:
    """Everything that the pages are made of.

    Attributes
    ----------
    folder
        Below which path the files are; another one for other contents, so that a
        browser may keep them for ever.
    files
        Bytes by name, such as `page.js`, without pages.
    """

    def __init__(self) -> None:
        self.files = dict(_read_files())
        digest = hashlib.sha256()
        for name, content in self.files.items():
            digest.update(b"%s %d " % (name.encode(), len(content)) + content)
        self.folder = f"page/{digest.hexdigest()[:16]}"

    def page(self, name: str) -> bytes:
        """Return a page, such as `index.html`, that names its other files."""
        return fill(name, assets=self.folder).encode()


def _read_files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in KINDS and path.suffix != ".html":
            yield path.relative_to(STATIC).as_posix(), path.read_bytes()


def fill(name: str, **contents: str) -> str:
    """Return a page with its sections and other `contents` where it names them."""
    known = contents | {
        one: (STATIC / f"{one}.html").read_text("utf-8") for one in SECTIONS
    }
    return _PLACE.sub(lambda found: known[found[1]], (STATIC / name).read_text("utf-8"))


def join_modules(name: str) -> str:
    """Join a module and all that it imports, in order, to one script.

    Each import is a statement `import ... from "./other.js";` that begins a line and
    gives no new names; no two modules have a name of the same spelling.
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
