"""``python -m polydom``: the same as the ``polydom`` command."""

import sys

from polydom.server.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
