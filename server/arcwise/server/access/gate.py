"""The gate: checks the key and the rate of a request before its body is read."""

from __future__ import annotations

import time
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from arcwise.server.access.keys import digest, key_id
from arcwise.server.access.origins import check_same_origin, is_foreign, is_local
from arcwise.server.access.rates import Rate, address_of
from arcwise.server.access.sessions import session_ended, session_of
from arcwise.server.problems import Problem, store_busy
from arcwise.server.process.lanes import STANDING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope

    from arcwise.server.collect.clock import Clock
    from arcwise.server.process.lanes import Standing
    from arcwise.server.store import StoredKey, StoredSession

REFRESH_SECONDS = 5.0
"""Seconds between two readings of keys and tasks: a revoked key is refused within 10 seconds."""

VIA_RELAY = "arcwise.via_relay"
"""Set in the scope of a request that came from a relay: the gateway has already counted the sender."""

_REALM = 'Bearer realm="arcwise"'
_NO_DIGEST = bytes(32)
_READING = ("read", "metrics")
"""Scopes that an admin key also has, since it can make such keys."""


class Actor(NamedTuple):
    """The sender of a request, with the key and the session that identify it.

    `key` is the key that was sent, or the key with which the session began; it is None where no key is
    needed. `session` is the cookie's session; it is None where the key itself was sent, or no key is needed.
    """

    key: StoredKey | None
    session: StoredSession | None = None

    @property
    def key_id(self) -> str:
        """The id of the key; "" without a key."""
        return "" if self.key is None else self.key.id

    def may(self, needed: str, task_id: str | None = None) -> bool:
        """Return whether the sender may do what a scope allows, with one task or (None) all tasks."""
        return self._has(needed) and (self._named is None or task_id in self._named)

    def _has(self, needed: str) -> bool:
        """Return whether the sender may do what a scope allows, with some task."""
        if self.key is None:
            return needed != "admin"
        return self.key.scope == needed or (needed in _READING and self.key.scope == "admin")

    @property
    def _named(self) -> tuple[str, ...] | None:
        """The tasks that the key is restricted to; None for all."""
        return None if self.key is None else self.key.tasks

    def reader(self, scope: Scope) -> str:
        """Return the reader whose share a request uses: the key's id, or the address without a key."""
        return self.key_id or address_of(scope)

    def readable(self, task_ids: Iterable[str]) -> list[str]:
        """Return the given tasks that the sender may read."""
        if not self._has("read"):
            return []
        if self._named is None:
            return list(task_ids)
        named = frozenset(self._named)  # a set, because both may have thousands of ids
        return [task_id for task_id in task_ids if task_id in named]


class Gate:
    """Decides whether a request is allowed, and rate-limits it.

    If `open` is True, everybody may report and read; if False, everybody needs a key; if None, only this
    machine needs no key, and only while the store has never had a key. Managing tasks always takes an admin
    key. `per_key` and `per_address` are requests a minute, 0 for no limit. `public_url` is where browsers
    find the server, or "" to use the Host header.
    """

    def __init__(
        self,
        *,
        open: bool | None,  # noqa: A002 (the name of the setting)
        per_key: int = 0,
        per_address: int = 0,
        public_url: str = "",
        clock: Clock = time,
    ) -> None:
        self._open = open
        self._per_key = Rate(per_key, clock=clock.monotonic)
        self._per_address = Rate(per_address, clock=clock.monotonic)
        self._public_url = public_url
        self._keys: dict[str, StoredKey] = {}
        self._loaded = False

    def load(self, keys: Iterable[StoredKey]) -> None:
        """Replace the keys by those in the store now, including revoked ones."""
        self._keys = {key.id: key for key in keys}
        self._loaded = True

    @property
    def keys(self) -> list[StoredKey]:
        """The keys as of the last `load`, including revoked ones."""
        return list(self._keys.values())

    def is_open(self, scope: Scope, needed: str = "read") -> bool:
        """Return whether this request may read, or report, without a key."""
        if self._open is not None:
            return self._open
        # Revoked keys count: revoking the last key must not open the server.
        if not self._loaded or self._keys or not is_local(scope):
            return False
        # Pages of other sites may report from this machine, but not see which tasks there are.
        return needed == "ingest" or not is_foreign(scope)

    def check(self, scope: Scope, needed: str, task_id: str | None = None) -> StoredKey | None:
        """Let a request pass and return its key, or None if it needs no key.

        `scope` is the ASGI scope, and `needed` the required scope of the key. A `task_id` of None stands for
        all tasks; a key for some tasks may not access all tasks. Raises `Problem`: 401 without a valid key,
        403 when the key is valid for something else or a form of another origin sends a cookie, 429 when the
        address or the key asks too often.
        """
        actor = self.sender(scope, needed)
        require(actor, needed, task_id)
        return actor.key

    def sender(self, scope: Scope, needed: str) -> Actor:
        """Count a request and return its sender; only `require` checks whether the sender has enough rights.

        Every request is counted once, including refused ones, so the number of requests until a 429 reveals
        nothing. Raises as `check` does, except for a valid key of another scope or for other tasks.
        """
        self.slow_down_address(scope)
        if needed != "admin" and self.is_open(scope, needed):
            return Actor(None)
        actor = self._known(scope)
        self._per_key.slow_down(actor.key_id)
        return actor

    def readable(self, scope: Scope, task_ids: Iterable[str]) -> list[str]:
        """Return the given tasks that this request may read; raises as `check` does."""
        actor = self.sender(scope, "read")
        if actor.key is not None and actor.key.scope not in ("read", "admin"):
            raise _other_scope("read")
        return actor.readable(task_ids)

    def actor(self, scope: Scope) -> Actor:
        """Return the sender of a request, for pages that show each reader what they may see.

        A key or a session counts even where none is needed, so that people can log in to an open server and
        manage its tasks. Raises `Problem`: 401 when a key or a session is needed and none is valid, 403 when
        a form of another origin sends a cookie, 429 when the address or the key asks too often.
        """
        self.slow_down_address(scope)
        is_open = self.is_open(scope)
        try:
            actor = self._known(scope)
        except Problem as problem:
            if is_open and problem.kind in ("key-missing", "session-ended"):
                return Actor(None)
            raise
        self._per_key.slow_down(actor.key_id)
        return actor

    def reader(self, scope: Scope) -> str:
        """Return the reader whose share of computing time a request uses, after `check` or `readable`."""
        try:
            return self._known(scope).reader(scope)
        except Problem:  # an open server accepts any key
            return Actor(None).reader(scope)

    def slow_down_address(self, scope: Scope) -> None:
        """Count a request of an address before its key is checked, so that nobody can guess keys quickly.

        Raises a 429 `Problem` when the address asks too often.
        """
        if self._per_address.is_limited and VIA_RELAY not in scope:
            self._per_address.slow_down(address_of(scope))

    def key(self, sent: bytes) -> StoredKey:
        """Return the valid key for these bytes.

        Raises `Problem`: 401 when the bytes are not a key or the key is revoked, 503 before keys are loaded.
        """
        if not self._loaded:
            raise store_busy("The server is not running.")
        key = self._keys.get(key_id(sent))
        # Unknown ids take as long as known ids, and timing does not reveal how much of a digest is right.
        same = compare_digest(digest(sent), _NO_DIGEST if key is None else key.digest)
        # The time of the revocation does not matter: this machine's clock may be behind.
        if key is None or not same or key.revoked is not None:
            raise _unknown_key()
        return key

    def _known(self, scope: Scope) -> Actor:
        actor = self._sender(scope)
        standing: Standing | None = scope.get(STANDING)
        if standing is not None:
            standing.is_known = True
        return actor

    def _sender(self, scope: Scope) -> Actor:
        """Return the holder of the key or session that was sent."""
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if sent:
            scheme, _, value = sent[0].partition(b" ")
            key = self.key(value.strip())
            if len(sent) > 1 or scheme.lower() != b"bearer":
                raise _unknown_key()
            return Actor(key)
        if not self._loaded:
            raise store_busy("The server is not running.")
        actor = self._logged_in(scope)
        if actor is None:
            raise _unauthorized(
                "key-missing",
                "This server requires a key: send it as Authorization: Bearer. `arcwise key new` makes one.",
                _REALM,
            )
        return actor

    def _logged_in(self, scope: Scope) -> Actor | None:
        """Return the holder of the session in the request's cookie; None if no session counts here."""
        changes = scope["method"] not in ("GET", "HEAD")
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if changes and path.startswith("/v1/"):  # only programs change things there, and they send keys
            return None
        session = session_of(scope)
        if session is None:
            return None
        key = self._keys.get(session.key_id)
        if key is None or key.revoked is not None:
            raise session_ended()
        if changes:
            check_same_origin(scope, self._public_url)
        return Actor(key, session)


def require(actor: Actor, needed: str, task_id: str | None = None) -> None:
    """Refuse an actor without the needed rights; see `Gate.check`.

    Raises `Problem`: 401 when there is no key, 403 when the key is valid for something else or for other
    tasks.
    """
    if actor.may(needed, task_id):
        return
    if actor.key is None:
        raise _unauthorized("key-missing", "This takes an admin key; `arcwise key new` makes one.", _REALM)
    if actor.key.tasks is not None and actor.key.scope == needed:
        raise _forbidden("The key that was sent is valid for some tasks only, and not for this one.")
    raise _other_scope(needed)


def _unauthorized(kind: str, detail: str, challenge: str) -> Problem:
    return Problem(401, kind, detail, headers={"WWW-Authenticate": challenge})


def _unknown_key() -> Problem:
    return _unauthorized(
        "key-unknown",
        "The key that was sent is unknown or revoked; `arcwise key list` shows the keys.",
        f'{_REALM}, error="invalid_token"',
    )


def _other_scope(needed: str) -> Problem:
    return _forbidden(f"This takes a key with the scope {needed}; the key that was sent has another scope.")


def _forbidden(detail: str) -> Problem:
    return Problem(
        403, "key-scope", detail, headers={"WWW-Authenticate": f'{_REALM}, error="insufficient_scope"'}
    )
