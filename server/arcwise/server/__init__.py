"""The server: collects batches, adds them up, estimates. Needs the extra ``arcwise[server]``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from arcwise.errors import MissingExtraError

_NEEDED = (
    "click",
    "fastapi",
    "httptools",
    "prometheus_client",
    "pydantic_settings",
    "rich",
    "scipy",
    "threadpoolctl",
    "uvicorn",
)
_MISSING = [name for name in _NEEDED if find_spec(name) is None]
if _MISSING:
    raise MissingExtraError(
        f"arcwise.server needs {', '.join(_MISSING)}, which the extra brings: pip install 'arcwise[server]'"
    )

if TYPE_CHECKING:
    from arcwise.server.app import create_app
    from arcwise.server.settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    # Lazy, so that arcwise.server.estimators can be used without loading the web framework.
    if name == "create_app":
        from arcwise.server.app import create_app

        return create_app
    if name == "Settings":
        from arcwise.server.settings import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
