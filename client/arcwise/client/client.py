"""A client charges and randomises each value, and queues the resulting code. It never stores a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from arcwise.checks import checked_bool, explained, shown
from arcwise.client.checks import check_options, checked_number, ledger_error
from arcwise.client.environment import NoRandomness, Source, unix_time
from arcwise.client.ledger import Ledger
from arcwise.client.memory import MemoryLedger, MemoryOutbox
from arcwise.client.outcomes import Outcome
from arcwise.client.policy import MemoizedTask, policy_of
from arcwise.client.uplink import BaseUplink, Uplink, UplinkOptions
from arcwise.errors import DomainError, LedgerError, ParameterError
from arcwise.randomness import SYSTEM
from arcwise.urls import is_loopback_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self, Unpack

    from arcwise.client.accounts import Budget
    from arcwise.client.ledger import Transaction
    from arcwise.client.outcomes import Counters
    from arcwise.client.policy import Policy, Reportable
    from arcwise.randomness import Randomness
    from arcwise.tasks import Caps, Group, Task

UplinkT = TypeVar("UplinkT", bound=BaseUplink)


class BaseClient(Generic[UplinkT]):
    """The common base of `Client` and `AsyncClient`: everything except waiting."""

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
        """Return the name, its task or group, and the value's position; refused values are not charged."""
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
        """Charge, randomise and queue a located value."""
        transaction: Transaction | None = None
        try:
            now = unix_time(self._uplink._environment)
            with self._open_transaction(now) as transaction:
                if transaction.opted_out():
                    outcome = Outcome.OPTED_OUT
                else:
                    outcome = reportable.submit(transaction, located, now, self._randomness)
        except LedgerError as error:  # failing telemetry must not stop the app
            outcome = Outcome.FAILED
            self._uplink._record_failure(error, name)
        except NoRandomness:
            outcome = Outcome.NO_RANDOMNESS
            self._uplink._record_failure(
                "the operating system gave no random bytes; nothing was charged", name
            )
        finally:  # even if an exception comes after a code was queued
            if transaction is not None and transaction.wakes_sender:
                self._uplink._wake()
        if outcome is not Outcome.ACCEPTED:
            self._uplink._count_refused(outcome)
        return outcome

    def _not_submitted(self, error: LedgerError, name: str) -> Outcome:
        """Record that a ledger error prevented a report; the error must not stop the app."""
        self._uplink._record_failure(error, name)
        self._uplink._count_refused(Outcome.FAILED)
        return Outcome.FAILED

    def _budget(self, name: str | None) -> Budget:
        budget = self._ledger.budget(self._policy.bill(name), unix_time(self._uplink._environment))
        # An answer that is paid for can be given any number of times.
        memoized = isinstance(self._policy.reportables.get(name or ""), MemoizedTask)
        return budget._replace(reports_left=None) if memoized else budget

    def _opt_out(self) -> None:
        dropped = self._ledger.opt_out()
        outbox = self._uplink._outbox
        if isinstance(outbox, MemoryOutbox) and self._owns_uplink:
            # In a shared queue, nothing shows which codes are this device's.
            dropped += outbox.clear("opted-out")
        self._uplink._record_dropped(dropped, "opted out")
        self._uplink._wake()  # a waiting flush can end now


def _chosen_ledger(ledger: Ledger | None, policy: Policy) -> Ledger:
    """Return the given ledger; without one, a ledger in memory if the policy needs no permanent ledger.

    Raises `ParameterError` if none is given and the policy depends on earlier reports.
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


class Client(BaseClient[Uplink]):
    """Reports values under local differential privacy. Safe to use from several threads.

    Parameters
    ----------
    server
        The server's base URL, or an `Uplink` that several clients share.
    tasks
        The tasks and groups that can be reported (`Task`, `Group`). They belong to the app: a server cannot
        change them, it can only ask the client to wait.
    ledger
        Records the spending: a `FileLedger`, which also holds the queue, or a `MemoryLedger`, which forgets
        when the process ends. Required if any task or group has caps or memoised answers, or if `caps` holds
        caps. If everything is unlimited, the default is a new `MemoryLedger`.
    caps
        Limits on everything that was ever charged to this ledger. ``None`` (default): only the caps of the
        tasks and groups apply, so each of them must have memoised answers or caps that limit how often it is
        reported. ``"unlimited"``: as ``None``, but tasks and groups without caps are accepted, and their
        reports may lose privacy without bound.
    memoize
        By task name, the number of different answers that the device may give. Equal values then get equal
        answers. The first report is charged for all of these answers, and later reports are free. Once all
        answers are in use, a new value gets the answer of the nearest value that has one.
        docs/howto/embed-a-client.md says what this protects.
    max_epsilon
        Largest epsilon that one report, or one round of a group, may spend; a task or group that spends more
        is refused. ``None`` (default): no limit.
    max_delta
        Largest delta that one report or round may spend, in [0, 1). 0 (default): pure epsilon only. Delta is
        charged and capped like epsilon.
    randomness
        By default the operating system's CSPRNG. An insecure source is accepted only with a server on this
        machine. Delete a `FileLedger` that was used with an insecure source: otherwise the next client that
        opens the file sends the codes that are still queued.
    show_values
        Whether a `DomainError` of `report` shows the refused value, to help find a mistake. False (default),
        because errors end up in logs.
    options
        With a URL: the keyword arguments of `Uplink`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or no cap limits what a device spends on a task.
    CertificateError
        When a task's certificate does not hold, or is above `max_epsilon` or `max_delta`.
    LedgerError
        When the ledger cannot be read.

    Notes
    -----
    `close`, and leaving a ``with`` block, sends the queued reports and stops an uplink that the client made
    itself. They leave a shared uplink running: the app flushes and closes it.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, MemoryLedger, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> client = Client(
    ...     "http://127.0.0.1:8000",
    ...     tasks=[heading],
    ...     ledger=MemoryLedger(),
    ...     caps=Caps(lifetime=10.0),
    ...     max_epsilon=1.0,
    ... )
    >>> client.budget("heading").reports_left
    5
    """

    __slots__ = ()

    @explained
    def __init__(
        self,
        server: str | Uplink,
        *,
        tasks: Iterable[Task | Group],
        ledger: Ledger | None = None,
        caps: Caps | Literal["unlimited"] | None = None,
        memoize: Mapping[str, int] | None = None,
        max_epsilon: float | None = None,
        max_delta: float = 0.0,
        randomness: Randomness = SYSTEM,
        show_values: bool = False,
        **options: Unpack[UplinkOptions],
    ) -> None:
        check_options(type(self), options, UplinkOptions)  # otherwise a misspelt caps= would be ignored
        super().__init__(
            server,
            Uplink,
            options,
            policy=policy_of(tasks, caps=caps, memoize=memoize, max_epsilon=max_epsilon, max_delta=max_delta),
            ledger=ledger,
            randomness=randomness,
            show_values=show_values,
        )

    def report(self, name: str, value: Any) -> Outcome:
        """Charge, randomise and queue one value; the outcome is true if the report was queued.

        This method does not raise for network or server trouble: the report waits in the queue. If the ledger
        cannot be written or the system has no random bytes, the method does not raise either: no report is
        made, and nothing is charged.

        Parameters
        ----------
        name
            The name of the task or group.
        value
            A real number in the task's domain. For a group, a mapping from its task names to such numbers; a
            task without a value, or with None, is charged all the same.

        Raises
        ------
        UnknownTaskError
            When the client has no task of this name.
        DomainError
            When a value is not in its task's domain; in that case nothing is charged.
        ParameterError
            When the value of a group is not a mapping.
        RuntimeError
            When the uplink is closed.
        """
        outcome = self._submit(*self._located(name, value))
        if outcome in (Outcome.FAILED, Outcome.NO_RANDOMNESS):
            self._uplink._emit_events()
        return outcome

    def opt_out(self) -> None:
        """Drop the queued reports and make no new reports until `opt_in`; the spending stays recorded.

        The nodes and answers of memoised tasks are deleted: after `opt_in`, new answers are charged in full.

        A batch that the sender has already taken from the queue cannot be recalled. In a queue that several
        devices share, nothing shows which device a code comes from. So a shared uplink with a queue in memory
        keeps all of its codes. `PostgresLedgers` keep sealed batches, even if they could not be sent yet.

        Raises
        ------
        LedgerError
            When the ledger cannot be written; the device is then not opted out.
        """
        self._opt_out()
        self._uplink._emit_events()

    def opt_in(self) -> None:
        """Resume reporting after `opt_out`; earlier spending still counts.

        Raises
        ------
        LedgerError
            When the ledger cannot be written.
        """
        self._ledger.opt_in()

    def budget(self, name: str | None = None) -> Budget:
        """Return the spending and remaining budget of a task or group, or of everything if `name` is None.

        Raises
        ------
        UnknownTaskError
            When the client has no task or group of this name.
        LedgerError
            When the ledger cannot be read.
        """
        return self._budget(name)

    @property
    def pending(self) -> int:
        """Number of reports in the uplink, from all its clients, that are neither acknowledged nor dropped.

        Raises `LedgerError` when the ledger cannot be read.
        """
        return self._uplink.pending

    @property
    def counters(self) -> Counters:
        """Numbers of reports so far: pending, sent, dropped by reason and refused by outcome.

        The numbers cover the reports of all clients that share the uplink. After `flush` returned True,
        `sent` and `dropped` show how many reports arrived and how many were given up. Raises `LedgerError`
        when the ledger cannot be read.

        Examples
        --------
        >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Task
        >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
        >>> client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=MemoryLedger())
        >>> client.counters
        Counters(pending=0, sent=0, dropped={}, refused={})
        """
        return self._uplink.counters

    def flush(self, timeout: float = 10.0) -> bool:
        """Send the reports that are queued now; return True if all of them were acknowledged or dropped.

        True does not mean that everything arrived: reports that the server finally refuses and reports that
        are too old are dropped, which counts as done. `counters` shows how many were sent and dropped. False
        means that some are still pending.

        Parameters
        ----------
        timeout
            Longest wait in seconds.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        return self._uplink.flush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Flush and close the uplink, unless it is shared; return True if no report was left in the queue.

        Reports that are left in memory are dropped; reports in a file are kept for the next run. As with
        `flush`, `counters` shows how many were sent and dropped.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        timeout = checked_number("timeout", timeout)
        return self._uplink.close(timeout) if self._owns_uplink else True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
