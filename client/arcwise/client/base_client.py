"""What `Client` and `AsyncClient` share: values go in, charged and randomised codes go to the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from arcwise.checks import checked_bool, shown
from arcwise.client.base_uplink import BaseUplink
from arcwise.client.checks import ledger_error
from arcwise.client.environment import unix_time
from arcwise.client.ledger import Ledger
from arcwise.client.memory.ledger import MemoryLedger
from arcwise.client.memory.outbox import MemoryOutbox
from arcwise.client.outcomes import Outcome
from arcwise.client.reportables import MemoizedTask
from arcwise.client.sources import NoRandomness, Source
from arcwise.errors import DomainError, LedgerError, ParameterError
from arcwise.urls import is_loopback_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.client.accounts import Budget
    from arcwise.client.ledger import Transaction
    from arcwise.client.policy import Policy
    from arcwise.client.reportables import Reportable
    from arcwise.randomness import Randomness

UplinkT = TypeVar("UplinkT", bound=BaseUplink)


class BaseClient(Generic[UplinkT]):
    """What `Client` and `AsyncClient` share: everything but waiting."""

    __slots__ = (
        "_ledger",
        "_open_transaction",
        "_owns_uplink",
        "_policy",
        "_randomness",
        "_show_values",
        "_uplink",
    )

    def __init__(
        self,
        server: str | UplinkT,
        uplink_type: type[UplinkT],
        options: Mapping[str, Any],
        *,
        policy: Policy,
        ledger: Ledger | None,
        randomness: Randomness,
        show_values: bool,
    ) -> None:
        show_values = checked_bool("show_values", show_values)
        ledger = _chosen_ledger(ledger, policy)
        if isinstance(server, str):
            uplink = uplink_type(server, ledger=ledger, **options)
        elif not isinstance(server, uplink_type):
            raise ParameterError(f"server must be a URL or an {uplink_type.__name__}, got {server!r}")
        elif options:
            names = ", ".join(options)
            raise ParameterError(
                f"{names} must be given to the shared {uplink_type.__name__}, not to the client"
            )
        else:
            uplink = server
        if type(getattr(randomness, "secure", None)) is not bool:
            raise ParameterError(
                "randomness must be left out, or be a Randomness of arcwise.randomness; got "
                f"{shown(randomness)}"
            )
        if not randomness.secure and not is_loopback_url(uplink.url):
            raise ParameterError(
                f"randomness must be secure for a server on another machine, got "
                f"{type(randomness).__name__} for {uplink.url!r}"
            )
        if not randomness.secure:
            uplink._check_stays("randomness must be secure")
        self._open_transaction = ledger._attach(uplink._outbox)
        uplink._serve(policy.names)
        self._uplink = uplink
        self._owns_uplink = uplink is not server
        self._policy = policy
        self._ledger = ledger
        self._randomness = Source(randomness)
        self._show_values = show_values
        uplink._resume()

    def _located(self, name: str, value: Any) -> tuple[str, Reportable, Any]:
        """Return the name, what it stands for and where the value lies; one that is refused costs nothing."""
        reportable = self._policy.reportable(name)
        try:
            located = reportable.located(value)
        except DomainError as error:
            if self._show_values:
                raise DomainError(f"{error}; got {shown(value)}") from None
            raise
        self._uplink._start()
        return name, reportable, located

    def _submit(self, name: str, reportable: Reportable, located: Any) -> Outcome:
        """Charge, randomise and queue a value that was located."""
        transaction: Transaction | None = None
        try:
            now = unix_time(self._uplink._environment)
            with self._open_transaction(now) as transaction:
                if transaction.opted_out():
                    outcome = Outcome.OPTED_OUT
                else:
                    outcome = reportable.submit(transaction, located, now, self._randomness)
        except LedgerError as error:  # telemetry that fails must not stop the app
            outcome = Outcome.FAILED
            self._uplink._record_failure(error, name)
        except NoRandomness:
            outcome = Outcome.NO_RANDOMNESS
            self._uplink._record_failure(
                "the operating system gave no random bytes; nothing was charged", name
            )
        finally:  # also when something interrupts what has been queued by now
            if transaction is not None and transaction.wakes_sender:
                self._uplink._wake()
        if outcome is not Outcome.ACCEPTED:
            self._uplink._count_refused(outcome)
        return outcome

    def _not_submitted(self, error: LedgerError, name: str) -> Outcome:
        """Take note of a report that was not made because of its ledger, which must not stop the app."""
        self._uplink._record_failure(error, name)
        self._uplink._count_refused(Outcome.FAILED)
        return Outcome.FAILED

    def _budget(self, name: str | None) -> Budget:
        budget = self._ledger.budget(self._policy.bill(name), unix_time(self._uplink._environment))
        # Answers that were paid for are given without end.
        memoized = isinstance(self._policy.reportables.get(name or ""), MemoizedTask)
        return budget._replace(reports_left=None) if memoized else budget

    def _opt_out(self) -> None:
        dropped = self._ledger.opt_out()
        outbox = self._uplink._outbox
        if isinstance(outbox, MemoryOutbox) and self._owns_uplink:
            # Of a shared one, nobody can tell which codes are this device's.
            dropped += outbox.clear("opted-out")
        self._uplink._record_dropped(dropped, "opted out")
        self._uplink._wake()  # a flush that waits has nothing to wait for any more


def _chosen_ledger(ledger: Ledger | None, policy: Policy) -> Ledger:
    """Return the given ledger, or a ledger in memory if none is given and nothing has to be remembered.

    Raises `ParameterError` if none is given and the policy depends on what was reported earlier.
    """
    if ledger is not None:
        if not isinstance(ledger, Ledger):
            raise ledger_error(ledger)
        return ledger
    if policy.remembers:
        raise ParameterError(
            f"{policy.remembers} need a ledger: give ledger=FileLedger(path), which is made once with "
            "create=True; ledger=MemoryLedger() forgets when the process ends"
        )
    return MemoryLedger()
