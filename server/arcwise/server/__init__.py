"""The server: collects batches, adds up their counts and answers with estimates.

It needs the extra ``arcwise[server]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.extras import check_extra
from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.server.app import create_app
    from arcwise.server.settings import Settings

__all__ = ["Settings", "create_app"]

check_extra(
    "server",
    "click",
    "fastapi",
    "httptools",
    "prometheus_client",
    "pydantic_settings",
    "rich",
    "scipy",
    "threadpoolctl",
    "uvicorn",
    user="arcwise.server",
)

# Lazy, so that parts of the package can be used without loading the web framework.
__getattr__ = lazy_names(__name__, {"app": ("create_app",), "settings": ("Settings",)})
