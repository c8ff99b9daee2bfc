"""List the benchmarks, or run one: python -m benchmarks [NAME [options]]."""

import ast
import sys
from importlib import import_module

from .places import ROOT
from .report import print_table

SUBJECTS = (
    "serving",
    "index",
    "exits",
    "models",
    "networks",
    "scores",
    "learners",
    "waits",
    "cluster",
    "peers",
)


def benchmarks() -> dict[str, str]:
    """The module of each, by name: what its subject's package lists as BENCHMARKS."""
    return {
        name: f"benchmarks.{subject}.{name}"
        for subject in SUBJECTS
        for name in import_module(f"benchmarks.{subject}").BENCHMARKS
    }


def question(module: str) -> str:
    """Read the first line of a module, which is not imported for it."""
    path = (ROOT / module.replace(".", "/")).with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.partition("\n")[0]


def main(arguments: list[str]) -> None:
    """Run the benchmark that is named, with the rest of the arguments."""
    modules = benchmarks()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__, end="\n\n")
        print_table(
            {
                "name": name,
                "subject": module.split(".")[1],
                "question": question(module),
            }
            for name, module in modules.items()
        )
        return
    name, *options = arguments
    if name not in modules:
        sys.exit(f"no benchmark is named {name!r}: see python -m benchmarks")
    import_module(modules[name]).main(options)


if __name__ == "__main__":
    main(sys.argv[1:])
