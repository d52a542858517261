"""Clients for tests that are not about caps: unlimited unless the test gives some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import arcwise.client

if TYPE_CHECKING:
    from arcwise.client import AsyncUplink, Uplink
    from arcwise.tasks import Caps

__all__ = ["AsyncClient", "Client"]


class Client(arcwise.client.Client):
    __slots__ = ()

    def __init__(
        self, server: str | Uplink, *, caps: Caps | Literal["unlimited"] = "unlimited", **options: Any
    ) -> None:
        super().__init__(server, caps=caps, **options)


class AsyncClient(arcwise.client.AsyncClient):
    __slots__ = ()

    def __init__(
        self, server: str | AsyncUplink, *, caps: Caps | Literal["unlimited"] = "unlimited", **options: Any
    ) -> None:
        super().__init__(server, caps=caps, **options)
