"""Header fields of every answer whose handler has not set them: who may keep it, and as what it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Message, Send

PRIVATE: Final = {
    "Cache-Control": "no-store",
    "NEL": '{"max_age":0}',
    "Vary": "Accept, Authorization, Cookie",
    "X-Content-Type-Options": "nosniff",
}
"""What an answer depends on that may be one reader's alone, and that nobody keeps.

NEL lets a browser forget whom a proxy or another server of this name told it to tell of each request (Network
Error Logging): an address of its own for each browser would name its reports.
"""

_FIELDS: Final = tuple((name.lower().encode(), value.encode()) for name, value in PRIVATE.items())


def with_fields(send: Send) -> Send:
    """Return a `send` that adds the fields of `PRIVATE` that an answer does not have."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = dict(message["headers"])
            is_public = given.get(b"cache-control", b"").startswith(b"public")
            added = [
                (name, value)
                for name, value in _FIELDS
                if name not in given and not (is_public and name == b"vary")
            ]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending
