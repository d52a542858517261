"""The client: values go in, charged and randomised codes go to the queue. No value is ever kept."""

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


class Client(BaseClient[Uplink]):
    """Reports values under local differential privacy. Safe to use from several threads.

    Parameters
    ----------
    server
        The server's base URL, or an `Uplink` that several clients share.
    tasks
        What can be reported: `Task` and `Group`. They belong to the app: nothing that a server says changes
        them; it can only ask to wait.
    ledger
        Where spending is written down: a `FileLedger`, which also holds the queue, or a `MemoryLedger`, which
        forgets. Must be given where anything has caps or memoised answers; a new `MemoryLedger` where all is
        unlimited.
    caps
        What the device may spend on everything that this ledger was ever charged for. ``None`` (default):
        what the tasks and groups allow, each of which must then have caps that limit how often it is
        reported, or memoised answers. ``"unlimited"``: the same, and those without may lose more and more.
    memoize
        By task name, how many different answers the device may give. Equal values then get equal answers, at
        no charge but the first: so many charges at once, with the first report. Past that many answers,
        the one of the nearest value that has one is given. docs/howto/embed-a-client.md says what this
        protects.
    max_epsilon
        Largest epsilon that one report, or one round of a group, may spend; more is refused. ``None``
        (default): no limit.
    max_delta
        Largest delta that one report or round may spend, in [0, 1). 0 (default): pure epsilon only. Delta is
        charged and capped like epsilon.
    randomness
        The operating system's CSPRNG. Anything that is not secure is taken only for a server on this machine.
        Delete a `FileLedger` that was used with it: what it has queued is sent by whoever opens it next.
    show_values
        Whether a `DomainError` of `report` tells the value that was refused, to find a mistake. False
        (default), because errors end in logs.
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
    `close`, and leaving a ``with`` block, sends what is queued and stops an uplink that the client made
    itself. A shared uplink is left alone: whoever made it flushes and closes it.

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
        check_options(type(self), options, UplinkOptions)  # a misspelt caps= is none
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
        """Charge, randomise and queue one value; the outcome is true when that was done.

        Network and server trouble is never raised here, nor is a ledger that cannot be written or a system
        without random bytes: the report waits in the queue, or was not made and nothing was charged.

        Parameters
        ----------
        name
            The task or the group.
        value
            A real number in the task's domain. For a group a mapping from its task names to such numbers;
            what is missing or None costs its share all the same.

        Raises
        ------
        UnknownTaskError
            When the client has no task of this name.
        DomainError
            When a value is not in its task's domain; nothing is charged then.
        ParameterError
            When the value of a group is no mapping.
        RuntimeError
            When the uplink is closed.
        """
        outcome = self._submit(*self._located(name, value))
        if outcome in (Outcome.FAILED, Outcome.NO_RANDOMNESS):
            self._uplink._emit_events()
        return outcome

    def opt_out(self) -> None:
        """Drop what is queued and report nothing more, until `opt_in`; spending stays written down.

        What memoised values were rounded to is deleted, with their answers: after `opt_in`, new ones are
        charged in full.

        A batch that the sender has taken from the queue cannot be called back. Where devices share a queue,
        nobody can tell whose its codes are: an uplink in memory keeps what it has, and `PostgresLedgers` what
        is sealed into a batch, even if it could not be sent yet.

        Raises
        ------
        LedgerError
            When the ledger cannot be written; the device has not opted out then.
        """
        self._opt_out()
        self._uplink._emit_events()

    def opt_in(self) -> None:
        """Report again after `opt_out`; what was spent before stays spent.

        Raises
        ------
        LedgerError
            When the ledger cannot be written.
        """
        self._ledger.opt_in()

    def budget(self, name: str | None = None) -> Budget:
        """Return what was spent on a task or a group, or without a name on everything, and what is left.

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
        """How many reports of the uplink, all its clients', are neither acknowledged nor dropped.

        Raises `LedgerError` when the ledger cannot be read.
        """
        return self._uplink.pending

    @property
    def counters(self) -> Counters:
        """What became of the reports so far: pending, sent, dropped and refused by reason.

        They are those of the uplink, so of all clients that share it. After `flush` returned True, `sent`
        and `dropped` tell what arrived and what was given up. Raises `LedgerError` when the ledger cannot be
        read.

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
        """Send what is queued now; True when none of it is queued any more, be it acknowledged or dropped.

        True is no receipt: what the server refuses for good, and what is too old, is dropped, and counts as
        done. `counters` tells how much was sent and how much was dropped. False: some is still pending.

        Parameters
        ----------
        timeout
            For how many seconds to wait at most.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        return self._uplink.flush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Flush and close the uplink, unless it is shared; True when nothing was left queued.

        What is left is dropped from memory, and stays in a file for the next time. As with `flush`,
        `counters` tells what became of the reports.

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
