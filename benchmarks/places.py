"""Where the checkout is, its demo, and the real data sets beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "docs" / "demo" / "PROJECT.toml"
DATA = ROOT.parent / "shared" / "data"
