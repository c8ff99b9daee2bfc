"""``python -m polydom``: the same as the ``polydom`` command."""

from polydom.server.__main__ import run

if __name__ == "__main__":
    run()
