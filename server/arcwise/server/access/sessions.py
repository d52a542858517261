"""Sessions: after a login with a key, the browser has a cookie, which counts like the key.

The store has the SHA-256 of each token with the id of its key; the gate checks that the key is still valid.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

from arcwise.errors import StoreError
from arcwise.loopback import is_loopback_authority
from arcwise.server.access.origins import is_foreign, is_local
from arcwise.server.problems import Problem, store_busy
from arcwise.server.store import StoredSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

    from arcwise.server.collect.clock import Clock
    from arcwise.server.store import Store, StoredKey

LOGIN_SCOPES: Final = ("read", "admin")
"""Scopes of keys that people log in with. The scope ingest is not one, as its keys are in copies of apps."""

_REFRESH_SECONDS = 5.0
"""Seconds for which a session that was read from the store is used, before it is read again."""
_SEEN_SECONDS = 60
"""Least seconds between two updates of a session's last use in the store."""
_AHEAD_SECONDS = 60
"""Seconds by which another worker's clock may be ahead when it records the use of a session."""
_MOST_KNOWN = 10_000
_SECURE_NAME = b"__Host-arcwise"
_LOCAL_NAME = b"arcwise-session"
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{64}")
_RANDOM_BYTES = 32
_MARK_BYTES = 16
_PLACE = "arcwise.session"
"""Key of the session in a request's scope; None means that the cookie is not valid."""


class _Known(NamedTuple):
    session: StoredSession | None
    read_at: float


class Sessions:
    """Begins, finds and ends sessions.

    A token is 32 random bytes and a mark: a MAC of these bytes under a secret of the store. Only tokens with
    a valid mark are looked up, so the store is not read for invented cookies. The mark alone does not give
    access: the digest must be in the store.

    A session ends `seconds` after its beginning, or `idle_seconds` after its last use; requests that a page
    makes by itself do not count as use. `public_url` is where browsers find the server, or "" to use the Host
    header.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        *,
        seconds: float,
        idle_seconds: float,
        public_url: str = "",
        clock: Clock = time,
    ) -> None:
        self._store = store
        self._seconds = int(seconds)
        self._idle_seconds = int(idle_seconds)
        self._public_url = public_url
        self._clock = clock
        self._key = b""
        self._known: dict[bytes, _Known] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Read the secret key of the marks from the open store, on any thread.

        Raises `StoreError` when the store cannot be read.
        """
        self._key = blake2b(self._store().secret, person=b"arcwise-session").digest()

    async def attach(self, scope: Scope) -> None:
        """Put the session of a request's cookie into its scope, for `session_of`.

        If the request has a key, the cookie is ignored.
        """
        token = self._token(scope)
        if token is None:
            return
        scope[_PLACE] = None
        digest = self._digest(token)
        if digest is None:
            return
        try:
            session = await self._find(digest)
        except StoreError:
            scope[_PLACE] = store_busy("The store cannot be read now.")
            return
        if session is None or not self._is_live(session):
            return
        scope[_PLACE] = session
        if not _is_in_background(scope):
            self._see(session)

    def check_https(self, scope: Scope) -> None:
        """Refuse a login over plain HTTP, except on this machine: the browser would drop the cookie.

        Raises a 403 `Problem`.
        """
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if self._is_secure(scope) and any(origin.startswith(b"http://") for origin in origins):
            where = (
                f"at {self._public_url}" if self._public_url else "over HTTPS, or on the server's own machine"
            )
            raise Problem(
                403,
                "https-needed",
                f"Log in {where}: over plain HTTP a browser drops the cookie of the login.",
            )

    async def begin(self, scope: Scope, key: StoredKey) -> str:
        """End the session of the request and begin one with a new token; return the value of Set-Cookie.

        Raises `StoreError` when the store cannot be written.
        """
        await self._end(scope)
        random = secrets.token_bytes(_RANDOM_BYTES)
        token = urlsafe_b64encode(random + self._mark(random))
        now = int(self._clock.time())
        session = StoredSession(sha256(token).digest(), key.id, now, now, now + self._seconds)
        await asyncio.to_thread(self._store().add_session, session)
        return self._cookie(scope, token.decode("ascii"))

    async def end(self, scope: Scope) -> str:
        """End the session of a request; return the value of Set-Cookie that deletes the cookie.

        Raises `StoreError` when the store cannot be written.
        """
        await self._end(scope)
        return self._cookie(scope, "", "; Max-Age=0")

    def prune(self, now: float) -> None:
        """Delete the sessions that are over at `now`, on any thread.

        Raises `StoreError` when the store cannot be written.
        """
        self._store().prune_sessions(int(now), self._idle_seconds)

    async def _end(self, scope: Scope) -> None:
        token = self._token(scope)
        digest = None if token is None else self._digest(token)
        if digest is not None:
            await asyncio.to_thread(self._store().end_session, digest)
            self._known[digest] = _Known(None, self._clock.monotonic())

    async def _find(self, digest: bytes) -> StoredSession | None:
        known = self._known.get(digest)
        if known is not None and self._clock.monotonic() - known.read_at < _REFRESH_SECONDS:
            return known.session
        read_at = self._clock.monotonic()
        try:
            session = await asyncio.to_thread(self._store().session, digest)
        except StoreError:
            if known is None:
                raise
            session = known.session  # the last known state stays in use, as for keys
        newer = self._known.get(digest)
        if newer is not known and newer is not None:  # ended or read in the meantime
            return newer.session
        if session is not None and known is not None and known.session is not None:
            session = replace(session, seen=max(session.seen, known.session.seen))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = _Known(session, read_at)
        return session

    def _is_live(self, session: StoredSession) -> bool:
        """Return whether a session is valid; it is not if its last use lies in the future."""
        now = self._clock.time()
        seen = session.seen <= now + _AHEAD_SECONDS and now < session.seen + self._idle_seconds
        return seen and now < session.ends

    def _see(self, session: StoredSession) -> None:
        """Remember that a session is in use, and update the store from time to time."""
        now = int(self._clock.time())
        if now - session.seen < min(_SEEN_SECONDS, self._idle_seconds / 4):
            return
        known = self._known.get(session.digest)
        if known is not None and known.session is not None:
            self._known[session.digest] = _Known(replace(known.session, seen=now), known.read_at)
        # Not awaited: a busy store must not delay pages.
        telling = asyncio.create_task(self._tell(session.digest, now), name="arcwise-session-seen")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, digest: bytes, now: int) -> None:
        with suppress(StoreError):  # the next use tries again
            await asyncio.to_thread(self._store().see_session, digest, now)

    def _token(self, scope: Scope) -> bytes | None:
        """Return the token in a request's cookie, b"" if it is not valid; None if no cookie counts."""
        headers = scope["headers"]
        if any(name == b"authorization" for name, _ in headers) or is_foreign(scope):
            return None
        wanted = _SECURE_NAME if self._is_secure(scope) else _LOCAL_NAME
        sent = b";".join(value for name, value in headers if name == b"cookie").split(b";")
        pairs = [pair.strip(b" \t").partition(b"=") for pair in sent]
        tokens = [value for name, equals, value in pairs if name == wanted and equals]
        if not tokens:
            return None
        # If there are two tokens, one comes from another path or port of this machine.
        return tokens[0] if len(tokens) == 1 else b""

    def _digest(self, token: bytes) -> bytes | None:
        if not _TOKEN.fullmatch(token):
            return None
        decoded = urlsafe_b64decode(token)
        random, mark = decoded[:_RANDOM_BYTES], decoded[_RANDOM_BYTES:]
        return sha256(token).digest() if compare_digest(mark, self._mark(random)) else None

    def _mark(self, random: bytes) -> bytes:
        return blake2b(random, key=self._key, digest_size=_MARK_BYTES).digest()

    def _is_secure(self, scope: Scope) -> bool:
        """Return whether a browser requires Secure cookies from this server; on the loopback it does not."""
        if self._public_url:
            return not is_loopback_authority(self._public_url.partition("://")[2])
        return not is_local(scope)

    def _cookie(self, scope: Scope, value: str, more: str = "") -> str:
        # Lax, so that a link to a page in a mail or a chat works. GET changes nothing, and every form checks
        # its origin, so Strict would protect nothing more.
        if self._is_secure(scope):
            return f"{_SECURE_NAME.decode()}={value}; Path=/; HttpOnly; SameSite=Lax; Secure{more}"
        return f"{_LOCAL_NAME.decode()}={value}; Path=/; HttpOnly; SameSite=Lax{more}"


def session_of(scope: Scope) -> StoredSession | None:
    """Return the session of a request, after `Sessions.attach`, or None without a cookie.

    Raises `Problem`: 401 when the session of a cookie is over, 503 when the store cannot be read.
    """
    session = scope.get(_PLACE, False)
    if isinstance(session, Problem):
        raise session
    if session is None:
        raise session_ended()
    return session or None


def session_ended() -> Problem:
    """Return the problem of a cookie that is not valid, or no longer valid."""
    return Problem(
        401,
        "session-ended",
        "The session has ended: log in again.",
        headers={"WWW-Authenticate": 'Bearer realm="arcwise"'},
    )


def _is_in_background(scope: Scope) -> bool:
    """Return whether a page's script sends the request, rather than a person."""
    return any(value == b"empty" for name, value in scope["headers"] if name == b"sec-fetch-dest")
