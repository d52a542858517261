"""The sending half of a client: what both uplinks share, and the one with a background thread."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict

from arcwise.checks import explained
from arcwise.client.checks import check_options, checked_integer, checked_number, ledger_error
from arcwise.client.delivery import Schedule, Verdict, classify, retry_after_seconds
from arcwise.client.environment import MACHINE, Environment
from arcwise.client.interruptions import renew_in_children
from arcwise.client.ledger import OutboxOptions, QueueOwner, Send, Wait
from arcwise.client.memory import MemoryLedger
from arcwise.client.outcomes import Counters, Event, EventLog, Outcome
from arcwise.client.transport import HttpxTransport, checked_response, user_agent
from arcwise.errors import LedgerError, ParameterError
from arcwise.tasks import DAY
from arcwise.urls import checked_key, checked_url
from arcwise.wire import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self, Unpack

    from arcwise.client.ledger import Outbox, Parcel, Step
    from arcwise.client.transport import Transport

_MAX_BATCH_SIZE = 500_000
"""Two-byte codes of a batch of this size fit into the largest body that a server reads."""

TROUBLE_SECONDS = 60.0
"""How long the sender rests after trouble of its own, such as a ledger that it could not use."""

_LOOK_SECONDS = 600.0
"""How often a sender looks into a file without any news: another process may have left reports there."""

_FLUSH_LOOK_SECONDS = 1.0
"""The same while a flush waits: another process may be done with what it was sending, or have ended."""

_KINDS = {
    Verdict.SENT: "sent",
    Verdict.RETRY: "retry",
    Verdict.KEEP: "kept",
    Verdict.PAUSE: "paused",
    Verdict.DROP: "dropped",
}


class BaseUplinkOptions(TypedDict, total=False):
    """The keyword arguments of `Uplink` and `AsyncUplink`, apart from the ledger and the transport."""

    batch_size: int
    interval: float
    delay: float
    max_pending: int
    max_age_days: float
    request_timeout: float
    exit_timeout: float
    on_event: Callable[[Event], object] | None
    key: str | None
    insecure: bool
    environment: Environment


class BaseUplink(ABC):
    """The half of an uplink that knows no network: what to send, when, and what an answer means.

    The parameters are those of `Uplink`.
    """

    _transport: Any

    def __init__(
        self,
        url: str,
        *,
        ledger: QueueOwner | None = None,
        batch_size: int = 10_000,
        interval: float = 30.0,
        delay: float = 0.0,
        max_pending: int = 1_000_000,
        max_age_days: float = 7.0,
        request_timeout: float = 10.0,
        exit_timeout: float = 2.0,
        on_event: Callable[[Event], object] | None = None,
        key: str | None = None,
        insecure: bool = False,
        environment: Environment = MACHINE,
    ) -> None:
        self._url = checked_url(url, insecure=insecure)
        self._key = checked_key(key, ("ingest",))
        clear = self._url.lower().startswith("http:") and not getattr(self._transport, "_seals", False)
        if self._key is not None and clear and not insecure:
            self._check_stays("key would leave this machine unencrypted: insecure must be True")
        batch_size = checked_integer("batch_size", batch_size, _MAX_BATCH_SIZE)
        capacity = checked_integer("max_pending", max_pending, 10**9)
        self._interval = checked_number("interval", interval)
        self._delay = checked_number("delay", delay)
        self._max_age = checked_number("max_age_days", max_age_days, above_zero=True) * DAY
        self._request_timeout = checked_number("request_timeout", request_timeout, above_zero=True)
        self._exit_timeout = checked_number("exit_timeout", exit_timeout)
        if on_event is not None and not callable(on_event):
            raise ParameterError(f"on_event must be None or a function of an Event, got {on_event!r}")
        if not isinstance(environment, Environment):
            raise ParameterError(f"environment must be an Environment, got {environment!r}")
        if ledger is None:
            ledger = MemoryLedger()
        elif not isinstance(ledger, QueueOwner):
            raise ledger_error(ledger)
        self._events = EventLog(on_event)
        self._environment = environment
        self._closed = False
        self._nothing_left = True  # when it was closed
        self._names: frozenset[str] = frozenset()
        self._outbox: Outbox = ledger._open_outbox(
            OutboxOptions(batch_size, capacity, self._delay, 2.0 * self._request_timeout, environment)
        )
        self._renew()
        self._outbox.load(self._schedule)
        _living.add(self)
        if self._outbox.durable:
            _sharing[id(self)] = self

    def _serve(self, names: frozenset[str]) -> None:
        """Take note that clients of this uplink have tasks of these names."""
        self._names |= names

    def _share(self) -> None:
        """Leave tasks to the other open uplinks on the queue that alone have clients with them."""
        foreign: set[str] = set()
        # The references are listed at once, whatever other threads construct meanwhile.
        for other in [reference() for reference in _sharing.valuerefs()]:
            if other is None or other is self or other._closed or not (theirs := other._names - self._names):
                continue
            if other._outbox.queue == self._outbox.queue and other._attends():
                foreign |= theirs
        self._outbox.foreign = frozenset(foreign)

    @abstractmethod
    def _attends(self) -> bool:
        """Return whether the sender runs, and start it where it can be started."""

    def _check_stays(self, rule: str) -> None:
        """Raise `ParameterError` if what is sent to this machine may leave it by the transport.

        Of a transport that an app has written itself, nobody can tell.
        """
        way = getattr(self._transport, "_exit", lambda _: None)(self._url)
        if way is not None:
            raise ParameterError(
                f"{rule}, since what is sent to {self._url!r} could leave this machine by {way}: leave that "
                "out of the transport"
            )

    def _renew(self) -> None:
        """Start sending anew: at first, and again in a forked child, which has no sender yet."""
        self._lock = threading.RLock()  # a signal handler may report, too
        self._refused: dict[str, int] = {}
        self._schedule = Schedule(self._environment.uniform)
        self._troubles = 0
        self._resumed = False

    @property
    def url(self) -> str:
        """The server's base URL."""
        return self._url

    def _rest(self, wait: float) -> float:
        """Return for how long to rest when there is nothing to send for so many seconds.

        Never for ever: a signal handler that raises may keep news from the sender.
        """
        return min(wait, _LOOK_SECONDS)

    def _flush_rest(self, left: float) -> float:
        """Return after how many seconds without a step a flush lets the sender look, if so many are left."""
        return min(left, _FLUSH_LOOK_SECONDS) if self._outbox.durable else left

    def _pending(self) -> int:
        return self._outbox.pending

    def _counters(self) -> Counters:
        pending, sent, dropped = self._outbox.counts()
        with self._lock:
            return Counters(pending, sent, dropped, dict(self._refused))

    def _count_refused(self, outcome: Outcome) -> None:
        """Count a report that was not made."""
        with self._lock:
            self._refused[outcome.value] = self._refused.get(outcome.value, 0) + 1

    def _record_failure(self, detail: object, task: str | None = None) -> None:
        """Say that the ledger or the sender is in trouble, over a report to this task or over sending."""
        self._events.add("failed", task, 1 if task else 0, str(detail))

    def _record_ledger_error(self, error: LedgerError) -> None:
        """Say that sending could not use the ledger, unless the uplink is closed.

        Then the app may have closed the ledger too, and nothing is lost: a batch under way stays in the file
        and is sent again.
        """
        if not self._closed:
            self._record_failure(error)

    def _emit_events(self) -> None:
        """Call the app's `on_event` with what happened since the last time."""
        self._events.emit()

    def _record_dropped(self, reports: int, reason: str) -> None:
        """Say that the queue was emptied."""
        if reports:
            self._events.add("dropped", None, reports, reason)

    def _address(self, parcel: Parcel) -> str:
        return f"{self._url}/v1/tasks/{parcel.task_id}/reports"

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": MEDIA_TYPE, "User-Agent": user_agent()}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _next(self) -> Step:
        """Return the parcel to send now, or for how long to wait."""
        try:
            self._share()
            expired = self._outbox.expire(self._max_age)
            if expired:
                self._events.add("expired", None, expired, "could not be sent in time")
            return self._outbox.take(self._environment.monotonic(), self._interval, self._schedule.ready_at)
        except LedgerError as error:
            self._troubles += 1
            self._record_ledger_error(error)
            return Wait(TROUBLE_SECONDS)

    def _recover(self, error: Exception) -> float:
        """Say that a step of the sender failed, which must not end all sending; return how long to rest."""
        self._troubles += 1
        self._record_failure(f"the sender failed ({type(error).__name__})")
        self._emit_events()
        return TROUBLE_SECONDS

    def _answered(self, parcel: Parcel, status: int, retry_after: str | None) -> None:
        """Do with a taken parcel what the server's answer asks for."""
        verdict = classify(status)
        foreign = verdict is Verdict.RETRY and status < 400
        detail = f"status {status}" + (", which is not the answer of an arcwise server" if foreign else "")
        wait = retry_after_seconds(retry_after)
        self._settle(parcel, verdict, detail, str(status), wait)

    def _unanswered(self, parcel: Parcel, error: Exception) -> None:
        """Keep a taken parcel for another attempt, because the network is in trouble."""
        # The type only: what a transport writes into its message is not ours to log.
        self._settle(parcel, Verdict.RETRY, f"no answer ({type(error).__name__})", "", 0.0)

    def _settle(self, parcel: Parcel, verdict: Verdict, detail: str, reason: str, retry_after: float) -> None:
        try:
            with self._lock:
                self._schedule.record(verdict, parcel.task_id, self._environment.monotonic(), retry_after)
            if verdict is Verdict.SENT:
                parcel.finish(None)
            elif verdict is Verdict.DROP:
                parcel.finish(reason)
            else:
                self._troubles += 1
            # Before the batch is free: who shares the queue must see the wait when they see the batch.
            self._outbox.save(self._schedule)
            if verdict not in (Verdict.SENT, Verdict.DROP):
                parcel.put_back()
            self._events.add(_KINDS[verdict], parcel.task_name, parcel.reports, detail)
        except LedgerError as error:  # the same bytes go out again, and the server counts them once
            self._troubles += 1
            self._record_ledger_error(error)
            if verdict in (Verdict.SENT, Verdict.DROP):  # the others hold it back already
                with self._lock:
                    self._schedule.record(Verdict.RETRY, parcel.task_id, self._environment.monotonic(), 0.0)
        except BaseException:
            self._put_back(parcel)  # it could not be noted, such as without random bytes for a wait
            raise

    @staticmethod
    def _put_back(parcel: Parcel) -> None:
        """Let a taken parcel go out once more; where that cannot be written, its lease ends by itself."""
        with suppress(LedgerError):
            parcel.put_back()

    def _expedite(self) -> Callable[[], bool]:
        """Let everything be tried at once, see `Outbox.expedite`."""
        with self._lock:
            self._schedule.expedite()
        self._share()
        return self._outbox.expedite()

    def _shut(self) -> bool:
        """Take no more reports and let go of the queue; return whether it was empty."""
        self._closed = True
        self._nothing_left = False
        try:
            left = self._outbox.close()
        except LedgerError as error:
            self._record_failure(error)
            return False
        if left:
            where = "they stay in the ledger" if self._outbox.durable else "they are dropped"
            self._events.add("closed", None, left, where)
        self._nothing_left = not left
        return self._nothing_left

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client or its uplink is closed and takes no more reports: make a new one")

    @abstractmethod
    def _start(self) -> None:
        """Make sure that the sender runs; raise `RuntimeError` when the uplink is closed."""

    def _resume(self) -> None:
        """Send what an earlier process has left, if it has left something; a second client looks no more."""
        if self._outbox.durable and not self._resumed:
            if self._outbox.pending:
                self._start()
            self._resumed = True

    @abstractmethod
    def _wake(self) -> None:
        """Let the sender look at the queue again."""

    def _after_fork(self) -> None:
        """Forget the parent's sender, which did not come along, and what it was waiting for."""
        earlier = self._schedule
        self._renew()
        self._schedule.follow(earlier)
        self._outbox.after_fork()

    def _at_exit(self) -> None:  # noqa: B027 (an event loop is gone by then: there is nothing to do)
        """Do what can be done for the queue while the interpreter ends."""


_living: weakref.WeakSet[BaseUplink] = weakref.WeakSet()
_sharing: weakref.WeakValueDictionary[int, BaseUplink] = weakref.WeakValueDictionary()
"""Those whose queue may have other uplinks, too."""


def _end() -> None:
    for sending in list(_living):
        sending._at_exit()


atexit.register(_end)
renew_in_children(_living, lambda sending: sending._after_fork())


class UplinkOptions(BaseUplinkOptions, total=False):
    """The keyword arguments of `Uplink`, which `Client` takes too."""

    transport: Transport | None


class Uplink(BaseUplink):
    """Queues codes and sends them from a background thread, which starts with the first report.

    Many clients can share one, such as a gateway's for the devices behind it: an uplink only ever sees
    codes. It is safe to use from several threads. After a fork the child starts its own thread; a queue in
    memory is empty there (the parent sends what it had queued), a queue in a file is shared.

    Parameters
    ----------
    url
        Base URL of the server, such as "https://reports.example".
    ledger
        A `FileLedger`: its file holds the queue, and only clients with this ledger can use the uplink. Or
        `PostgresLedgers`, whose database holds it, for the clients of all accounts. The queue is in memory
        unless given.
    batch_size
        Codes per request; a full batch is sent at once.
    interval
        After how many seconds a batch is sent that is not full.
    delay
        Longest random time, in seconds, that a report waits before it may join a batch: with it, the time of
        sending tells less about the time of the event. 0 (default): none.
    max_pending
        Most reports to queue; with a full queue `Client.report` refuses and charges nothing.
    max_age_days
        After how many days a report that could not be sent is dropped.
    request_timeout
        Seconds after which a request counts as failed that has no answer, whatever progress it makes.
    exit_timeout
        For how many seconds the end of the interpreter may wait for what is queued. It waits for one attempt
        only, not for a network that is down. With a `delay` and a file it does not send at all.
    on_event
        Called with an `Event` for whatever becomes of reports, from the thread that sends (or that reports,
        when the ledger fails). What it raises is logged.
    key
        The server's ingest key, where it asks for one; sent with every batch as ``Authorization: Bearer``,
        never logged. All devices of an app have the same one: a key of its own would name a device.
    insecure
        Send reports and the key over plain HTTP too, to another host than this one, where something else
        encrypts; refused unless asked for. Somebody on the way sees whose codes these are.
    environment
        What tells the time and gives random bits; this machine, unless a test hands in another `Environment`.
    transport
        What to send with; an `HttpxTransport` unless given. Closed with the uplink.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, RecordingTransport, Task, Uplink
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> with Uplink("https://reports.example", transport=RecordingTransport()) as uplink:
    ...     clients = [Client(uplink, tasks=[heading], ledger=MemoryLedger()) for _ in range(3)]
    ...     accepted = [client.report("heading", 12.0) for client in clients]
    ...     uplink.flush(), uplink.counters.sent
    (True, 3)
    """

    @explained
    def __init__(
        self,
        url: str,
        *,
        ledger: QueueOwner | None = None,
        transport: Transport | None = None,
        **options: Unpack[BaseUplinkOptions],
    ) -> None:
        check_options(type(self), options, UplinkOptions)
        self._transport = HttpxTransport() if transport is None else transport
        super().__init__(url, ledger=ledger, **options)

    def _renew(self) -> None:
        super()._renew()
        self._thread: threading.Thread | None = None
        # Notified when there is something new to do, and when a parcel is settled.
        # Entered by itself: a signal handler may raise in `Condition.__enter__` once the lock is taken.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._is_news = False
        self._steps = 0
        # How many troubles there were when the interpreter ended: one more, and nothing is tried again.
        self._last_trouble: int | None = None

    def _start(self) -> None:
        """Make sure that the thread runs; raise `RuntimeError` when the uplink is closed."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._mutex:
            self._check_open()
            if self._thread is None or not self._thread.is_alive():
                # Kept before it runs: a signal handler that raises in between must not lead to two.
                thread = self._thread = threading.Thread(target=self._run, name="arcwise-uplink", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # no more threads: the queue keeps what it gets until there are
                    self._thread = None
                    self._record_failure(error)

    def _attends(self) -> bool:
        try:
            self._start()
        except RuntimeError:  # it is closed
            return False
        return self._thread is not None

    def _wake(self) -> None:
        """Let the thread look at the queue again."""
        with self._mutex:
            self._is_news = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while not self._closed:
                self._is_news = False
                try:
                    wait = self._step()
                except Exception as error:  # a defect, or no memory: the next attempt may work
                    wait = self._recover(error)
                with self._mutex:
                    self._steps += 1
                    self._changed.notify_all()
                    if self._last_trouble is not None and self._troubles > self._last_trouble:
                        self._changed.wait_for(lambda: self._closed)
                    if not self._is_news and not self._closed and wait > 0:
                        self._changed.wait(min(self._rest(wait), threading.TIMEOUT_MAX))
        finally:
            self._transport.close()

    def _step(self) -> float:
        """Send one parcel, if one is due; return for how many seconds there is nothing to do."""
        step = self._next()
        if isinstance(step, Send):
            self._send(step.parcel)
        self._emit_events()
        return step.seconds if isinstance(step, Wait) else 0.0

    def _send(self, parcel: Parcel) -> None:
        try:
            status, retry_after = self._transport.post(
                self._address(parcel), parcel.body, self._headers(), self._request_timeout
            )
            status, retry_after = checked_response(status, retry_after)
        except Exception as error:  # a transport may raise anything, and the thread must live
            self._unanswered(parcel, error)
        except BaseException:  # the next report starts another thread
            self._put_back(parcel)
            raise
        else:
            self._answered(parcel, status, retry_after)

    @property
    def pending(self) -> int:
        """How many reports are neither acknowledged nor dropped."""
        return self._pending()

    @property
    def counters(self) -> Counters:
        """What became of the reports so far, in all clients that share this uplink."""
        return self._counters()

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is queued without waiting for the interval; True when nothing of it is left in time.

        Nothing left does not mean that all of it arrived: what the server refuses for good, and what is too
        old, is dropped. `counters` tells how much was sent and how much was dropped.

        Waits between attempts and random delays end, except those that the server asked for; an attempt that
        fails from here on is followed by a wait again. Reports that come in meanwhile, from other threads,
        are not waited for.

        Parameters
        ----------
        timeout
            Seconds; kept to even while a request hangs.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        return self._flush(checked_number("timeout", timeout))

    def _flush(self, timeout: float, *, once: bool = False) -> bool:
        deadline = time.monotonic() + timeout
        troubles = self._troubles
        if once:
            self._last_trouble = troubles
        look = True
        try:
            is_done = self._expedite()
            if self._thread is threading.current_thread():  # `on_event` asks: it cannot wait for itself
                self._wake()
                return is_done()
            while True:
                steps = self._steps
                if is_done():
                    return True
                if self._closed or (once and self._troubles > troubles):
                    return False
                if look:
                    self._start()
                    self._wake()
                with self._mutex:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    # The thread makes its next step when one is due. Woken after each, it would never rest.
                    look = not self._changed.wait_for(
                        lambda before=steps: self._closed or self._steps != before,  # type: ignore[misc]
                        min(self._flush_rest(left), threading.TIMEOUT_MAX),
                    )
        except LedgerError as error:
            self._record_ledger_error(error)
            return False

    def close(self, timeout: float = 5.0) -> bool:
        """Flush, let go of what is left after `timeout` seconds, and stop; True when nothing was left.

        What is left in memory is dropped; in a file it stays, for the next time. As with `flush`, `counters`
        tells what became of the reports.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        return self._close(checked_number("timeout", timeout))

    def _close(self, timeout: float, *, once: bool = False) -> bool:
        if self._closed:
            return self._nothing_left
        deadline = time.monotonic() + timeout
        self._flush(timeout, once=once)
        nothing_left = self._shut()
        with self._mutex:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is None:
            self._transport.close()
        elif thread is not threading.current_thread():  # it closes the transport, after a request that hangs
            thread.join(max(0.0, deadline - time.monotonic()))
        self._emit_events()
        return nothing_left

    def _at_exit(self) -> None:
        if self._thread is not None:
            silent = self._outbox.durable and self._delay
            self._close(0.0 if silent else self._exit_timeout, once=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
