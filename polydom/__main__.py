"""Run the command ``polydom`` as ``python -m polydom``."""

from polydom.server.__main__ import run

if __name__ == "__main__":
    run()
