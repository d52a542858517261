"""Clients for an ASGI app (FastAPI, Starlette and others) that reports on behalf of its users.

No framework is imported: the lifespan and the middleware are plain ASGI functions.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from arcwise.checks import checked_bool, explained
from arcwise.client.aio import AsyncClient, AsyncUplink
from arcwise.client.checks import checked_number
from arcwise.client.policy import policy_of
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping

    from typing_extensions import Unpack

    from arcwise.client.aio import AsyncUplinkOptions
    from arcwise.client.postgres.ledger import PostgresLedgers
    from arcwise.tasks import Caps, Group, Task

__all__ = ["Reporting", "ReportingMiddleware"]


class Reporting:
    """Reporting for an ASGI app: one uplink while the app runs, and a client for each account.

    Parameters
    ----------
    url
        The arcwise server's base URL.
    tasks, caps, memoize, max_epsilon, max_delta, show_values
        As for `Client`; they apply to every account.
    ledgers
        The ledgers of the accounts, which also hold the queue.
    close_timeout
        Longest time, in seconds, that the app waits at its end for queued reports to be sent. Reports that
        are not sent by then stay in the database.
    **options
        The keyword arguments of `AsyncUplink`.

    Raises
    ------
    ParameterError, CertificateError
        When an argument is out of its bounds, or a task's certificate does not hold; raised on construction.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, PostgresLedgers, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> ledgers = PostgresLedgers("postgresql:///app")  # doctest: +SKIP
    >>> reporting = Reporting("https://reports.example", tasks=[heading], ledgers=ledgers)  # doctest: +SKIP
    >>> app = FastAPI(lifespan=reporting.lifespan)  # doctest: +SKIP
    >>> await reporting.client("user-17").report("heading", 350.5)  # in a request # doctest: +SKIP
    """

    @explained
    def __init__(
        self,
        url: str,
        *,
        tasks: Iterable[Task | Group],
        ledgers: PostgresLedgers,
        caps: Caps | Literal["unlimited"] | None = None,
        memoize: Mapping[str, int] | None = None,
        max_epsilon: float | None = None,
        max_delta: float = 0.0,
        show_values: bool = False,
        close_timeout: float = 5.0,
        **options: Unpack[AsyncUplinkOptions],
    ) -> None:
        self._url = url
        self._ledgers = ledgers
        self._options = options
        self._timeout = checked_number("close_timeout", close_timeout)
        self._show_values = checked_bool("show_values", show_values)
        self._policy: dict[str, Any] = {
            "tasks": tuple(tasks),
            "caps": caps,
            "memoize": memoize,
            "max_epsilon": max_epsilon,
            "max_delta": max_delta,
        }
        policy_of(**self._policy)  # raise errors in the arguments now, not in a request
        self._uplink: AsyncUplink | None = None

    @property
    def uplink(self) -> AsyncUplink:
        """The uplink; raises `RuntimeError` unless the app is running."""
        if self._uplink is None:
            raise RuntimeError(
                "reporting has not started: give its lifespan to the app, or enter `async with "
                "reporting.lifespan(app)` in the app's own lifespan"
            )
        return self._uplink

    def client(self, account: str) -> AsyncClient:
        """Return a client for an account; it shares the app's uplink and is cheap enough for each request.

        Raises
        ------
        ParameterError
            When the account's name is not valid.
        RuntimeError
            When the app is not running.
        """
        return AsyncClient(
            self.uplink,
            ledger=self._ledgers.account(account),
            show_values=self._show_values,
            **self._policy,
        )

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Send reports while the app runs, and flush at its end: the ``lifespan`` of FastAPI and Starlette.

        Reports that an earlier run left in the database are sent too. The ledgers stay open.
        """
        if self._uplink is not None:
            raise RuntimeError("reporting has started already: enter its lifespan once")
        self._uplink = AsyncUplink(self._url, ledger=self._ledgers, **self._options)
        try:
            self._uplink._resume()
            yield
        finally:
            uplink, self._uplink = self._uplink, None
            await uplink.close(self._timeout)


class ReportingMiddleware:
    """Gives each request the client of its account as ``request.state.arcwise``.

    The attribute is None if `account` returns None.

    Parameters
    ----------
    app
        The ASGI app.
    reporting
        The app's `Reporting`.
    account
        Function that takes a request's ASGI scope and returns the name of the account, or None. It runs
        before the app, so the middleware that signs users in must enclose this one: in Starlette, add that
        middleware after this one.

    Examples
    --------
    >>> app.add_middleware(  # doctest: +SKIP
    ...     ReportingMiddleware, reporting=reporting, account=lambda scope: scope["session"].get("user")
    ... )
    """

    @explained
    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        *,
        reporting: Reporting,
        account: Callable[[MutableMapping[str, Any]], str | None],
    ) -> None:
        if not isinstance(reporting, Reporting):
            raise ParameterError(f"reporting must be a Reporting, got {type(reporting).__name__}")
        if not callable(account):
            raise ParameterError(f"account must be a function of a scope, got {type(account).__name__}")
        self.app = app
        self._reporting = reporting
        self._account = account

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Handle a request or another ASGI scope."""
        if scope["type"] in ("http", "websocket"):
            account = self._account(scope)
            client = None if account is None else self._reporting.client(account)
            # A copy: a server shares the lifespan's state between requests.
            scope["state"] = {**scope.get("state", {}), "arcwise": client}
        await self.app(scope, receive, send)
