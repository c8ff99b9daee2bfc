"""Where a request goes in an application that is mounted in another."""

from starlette.types import Scope


def path_in_app(scope: Scope) -> str:
    """Path of a request without what lies in front of this application.

    As Starlette's own routing finds it: a root path counts only where the path begins
    with it, up to a slash.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) :][:1] in ("", "/"):
        return path[len(root) :]
    return path
