"""Write the parts of docs/reference that are made from the code.

python -m tools.write_reference            writes them
python -m tools.write_reference --check    exits with 1 where one is out of date
"""

from tools.generated_parts import ROOT, write
from tools.reference import (
    commands,
    errors,
    features,
    fetch_keys,
    metrics,
    project_keys,
    tables,
)

REFERENCE = ROOT / "docs/reference"
PAGES = {
    REFERENCE / "commands.md": commands.parts,
    REFERENCE / "errors.md": errors.parts,
    REFERENCE / "features.md": features.parts,
    REFERENCE / "fetches.md": fetch_keys.parts,
    REFERENCE / "metrics.md": metrics.parts,
    REFERENCE / "project.md": project_keys.parts,
    REFERENCE / "tables.md": tables.parts,
}

if __name__ == "__main__":
    raise SystemExit(write(PAGES))
