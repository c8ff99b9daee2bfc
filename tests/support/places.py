"""Where the checkout is, and the real data sets beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DATA = ROOT.parent / "shared" / "data"
ROOMS = ("features", "models", "indexer", "server")
