"""What is packed for kernels, and stays where it is."""

from typing import NoReturn

from ..features.errors import BadInput


class Pinned:
    """Arrays that kernels find by their addresses, or read without checking them.

    A copy would hold the addresses of the original, which may be gone. So models copy
    and pickle the arrays they are made of, check them, and pack them anew.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise BadInput(
            f"{type(self).__name__} holds addresses of this process; copy or pickle "
            "the model that it was packed for"
        )
