"""The gate: what a request must show before anything of it is read."""

from __future__ import annotations

import time
from hmac import compare_digest
from typing import TYPE_CHECKING

from arcwise.server.keys import digest, key_id
from arcwise.server.local import is_local
from arcwise.server.problems import Problem, store_busy, too_many
from arcwise.server.rates import Rate, address_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope

    from arcwise.server.clock import Clock
    from arcwise.server.store import StoredKey

__all__ = ["REFRESH_SECONDS", "Gate"]

REFRESH_SECONDS = 5.0
"""A running worker reads keys and tasks this often: a revoked key is refused within 10 seconds."""

_REALM = 'Bearer realm="arcwise"'
_NO_DIGEST = bytes(32)


class Gate:
    """Decides whether a request may do what it asks for, and whether it may yet.

    Parameters
    ----------
    open
        True: everybody may report and read. False: nobody may without a key. None: without a key, only this
        machine may, and only while the store has never had a key. Tasks are managed with an admin key only,
        whatever stands here.
    per_key, per_address
        Requests a minute that one key, one address may make; 0: no limit.
    clock
        The machine's clock.
    """

    def __init__(
        self,
        *,
        open: bool | None,  # noqa: A002 (the word that people write)
        per_key: int = 0,
        per_address: int = 0,
        clock: Clock = time,
    ) -> None:
        self._open = open
        self._per_key = Rate(per_key, clock=clock.monotonic)
        self._per_address = Rate(per_address, clock=clock.monotonic)
        self._keys: dict[str, StoredKey] = {}
        self._loaded = False

    def load(self, keys: Iterable[StoredKey]) -> None:
        """Take over the keys as they stand in the store now, revoked ones among them."""
        self._keys = {key.id: key for key in keys}
        self._loaded = True

    def is_open(self, scope: Scope) -> bool:
        """Return whether this request may report and read without a key."""
        if self._open is not None:
            return self._open
        # Revoked keys count: to revoke the last one must not open the doors.
        return self._loaded and not self._keys and is_local(scope)

    def check(self, scope: Scope, needed: str, task_id: str | None = None) -> StoredKey | None:
        """Let a request pass; return its key, or None where it needs none.

        Parameters
        ----------
        scope
            The ASGI scope of the request.
        needed
            The scope of the keys that may do it: "ingest", "read" or "admin".
        task_id
            The task that it is about; None: all, which a key for some tasks cannot have.

        Raises
        ------
        Problem
            401 when there is no key, or none that is good; 403 when it is good for something else; 429 when
            the address or the key asks too often.
        """
        self._slow_down_address(scope)
        if needed != "admin" and self.is_open(scope):
            return None
        key = self._known(scope)
        if key.scope != needed:
            raise _forbidden(
                f"This takes a key with the scope {needed}; the key that was sent has another scope."
            )
        if key.tasks is not None and task_id not in key.tasks:
            raise _forbidden("The key that was sent is valid for some tasks only, and not for this one.")
        _slow_down(self._per_key.wait(key.id))
        return key

    def readable(self, scope: Scope, task_ids: Iterable[str]) -> list[str]:
        """Return those of the tasks that this request may read; raises as `check` does.

        An admin key may list tasks too: it manages them.
        """
        self._slow_down_address(scope)
        if self.is_open(scope):
            return list(task_ids)
        key = self._known(scope)
        if key.scope == "ingest":
            raise _forbidden(
                "This takes a key with the scope read or admin; the key that was sent has the scope ingest."
            )
        _slow_down(self._per_key.wait(key.id))
        return [task_id for task_id in task_ids if key.tasks is None or task_id in key.tasks]

    def _slow_down_address(self, scope: Scope) -> None:
        # Before the key is looked at: whoever tries keys is slowed down as well.
        if self._per_address.is_limited:
            _slow_down(self._per_address.wait(address_of(scope)))

    def _known(self, scope: Scope) -> StoredKey:
        if not self._loaded:
            raise store_busy("The server is not running.")
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if not sent:
            raise _unauthorized(
                "key-missing",
                "This server requires a key: send it as Authorization: Bearer. `arcwise key new` makes one.",
                _REALM,
            )
        scheme, _, value = sent[0].partition(b" ")
        value = value.strip()
        key = self._keys.get(key_id(value))
        # Unknown ids take as long as known ones, and how much of a digest is right cannot be timed.
        same = compare_digest(digest(value), _NO_DIGEST if key is None else key.digest)
        good = key is not None and same and len(sent) == 1 and scheme.lower() == b"bearer"
        # Whatever the time of its revocation is by this machine's clock, which may be behind.
        if key is None or not good or key.revoked is not None:
            raise _unauthorized(
                "key-unknown",
                "The key that was sent is unknown or revoked; `arcwise key list` shows the keys.",
                f'{_REALM}, error="invalid_token"',
            )
        return key


def _slow_down(seconds: int) -> None:
    if seconds:
        raise too_many(seconds)


def _unauthorized(kind: str, detail: str, challenge: str) -> Problem:
    return Problem(401, kind, detail, headers={"WWW-Authenticate": challenge})


def _forbidden(detail: str) -> Problem:
    return Problem(
        403, "key-scope", detail, headers={"WWW-Authenticate": f'{_REALM}, error="insufficient_scope"'}
    )
