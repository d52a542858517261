"""The sending half of a client: the common base of both uplinks, and `Uplink` with its background thread."""

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
"""A batch of this many two-byte codes fits into the largest body that a server reads."""

TROUBLE_SECONDS = 60.0
"""Seconds that the sender rests after internal trouble, such as a ledger that could not be used."""

_LOOK_SECONDS = 600.0
"""Seconds after which an idle sender looks into a file again, for reports that another process left."""

_FLUSH_LOOK_SECONDS = 1.0
"""The same interval while a flush waits: another process may have finished sending, or ended."""

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
    """The half of an uplink without network code: what to send, when, and how to react to an answer.

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
        self._nothing_left = True  # whether the queue was empty on closing
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
        """Record the task names of a client of this uplink."""
        self._names |= names

    def _share(self) -> None:
        """Leave tasks to other open uplinks on the same queue if only their clients have these tasks."""
        foreign: set[str] = set()
        # Copy the references first: other threads may create uplinks meanwhile.
        for other in [reference() for reference in _sharing.valuerefs()]:
            if other is None or other is self or other._closed or not (theirs := other._names - self._names):
                continue
            if other._outbox.queue == self._outbox.queue and other._attends():
                foreign |= theirs
        self._outbox.foreign = frozenset(foreign)

    @abstractmethod
    def _attends(self) -> bool:
        """Return whether the sender runs, after trying to start it."""

    def _check_stays(self, rule: str) -> None:
        """Raise `ParameterError` if the transport may send requests for this machine elsewhere.

        The check cannot cover a transport that the app has written itself.
        """
        way = getattr(self._transport, "_exit", lambda _: None)(self._url)
        if way is not None:
            raise ParameterError(
                f"{rule}, because requests to {self._url!r} could leave this machine by {way}: leave it out "
                "of the transport"
            )

    def _renew(self) -> None:
        """Set the state for sending, initially and in a forked child, which has no sender yet."""
        self._lock = threading.RLock()  # reentrant: a signal handler may report, too
        self._refused: dict[str, int] = {}
        self._schedule = Schedule(self._environment.uniform)
        self._troubles = 0
        self._resumed = False

    @property
    def url(self) -> str:
        """The server's base URL."""
        return self._url

    def _rest(self, wait: float) -> float:
        """Return the seconds to rest when there is nothing to send for `wait` seconds.

        The rest always ends: a signal handler that raises may prevent a wake-up.
        """
        return min(wait, _LOOK_SECONDS)

    def _flush_rest(self, left: float) -> float:
        """Return the seconds that a flush waits for a step before it wakes the sender, at most `left`."""
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
        """Log trouble with the ledger or the sender; `task` is the report's task, or None for the sender."""
        self._events.add("failed", task, 1 if task else 0, str(detail))

    def _record_ledger_error(self, error: LedgerError) -> None:
        """Log a ledger error of the sender, unless the uplink is closed.

        After closing, the app may have closed the ledger too, and nothing is lost: a batch that was being
        sent stays in the file and is sent again.
        """
        if not self._closed:
            self._record_failure(error)

    def _emit_events(self) -> None:
        """Call the app's `on_event` with the events since the last call."""
        self._events.emit()

    def _record_dropped(self, reports: int, reason: str) -> None:
        """Log that queued reports were dropped."""
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
        """Return the parcel to send now, or the time to wait."""
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
        """Log a failed step of the sender, which must not end all sending; return the seconds to rest."""
        self._troubles += 1
        self._record_failure(f"the sender failed ({type(error).__name__})")
        self._emit_events()
        return TROUBLE_SECONDS

    def _answered(self, parcel: Parcel, status: int, retry_after: str | None) -> None:
        """Settle a taken parcel according to the server's answer."""
        verdict = classify(status)
        foreign = verdict is Verdict.RETRY and status < 400
        detail = f"status {status}" + (", which is not the answer of an arcwise server" if foreign else "")
        wait = retry_after_seconds(retry_after)
        self._settle(parcel, verdict, detail, str(status), wait)

    def _unanswered(self, parcel: Parcel, error: Exception) -> None:
        """Keep a taken parcel for another attempt, because the network is in trouble."""
        # Log only the error's type: a transport's message may contain data that must not be logged.
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
            # Save before the batch is free: other senders that see the batch must also see the wait.
            self._outbox.save(self._schedule)
            if verdict not in (Verdict.SENT, Verdict.DROP):
                parcel.put_back()
            self._events.add(_KINDS[verdict], parcel.task_name, parcel.reports, detail)
        except LedgerError as error:  # the same bytes are sent again, and the server counts them once
            self._troubles += 1
            self._record_ledger_error(error)
            if verdict in (Verdict.SENT, Verdict.DROP):  # the other verdicts already make the batch wait
                with self._lock:
                    self._schedule.record(Verdict.RETRY, parcel.task_id, self._environment.monotonic(), 0.0)
        except BaseException:
            self._put_back(parcel)  # the outcome could not be recorded, for example without random bytes
            raise

    @staticmethod
    def _put_back(parcel: Parcel) -> None:
        """Return a taken parcel to the queue; if that fails, the parcel is free when its lease expires."""
        with suppress(LedgerError):
            parcel.put_back()

    def _expedite(self) -> Callable[[], bool]:
        """Let everything be sent without waiting, see `Outbox.expedite`."""
        with self._lock:
            self._schedule.expedite()
        self._share()
        return self._outbox.expedite()

    def _shut(self) -> bool:
        """Accept no more reports and close the queue; return whether the queue was empty."""
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
        """Start sending the reports of an earlier process, if any; only the first client checks for them."""
        if self._outbox.durable and not self._resumed:
            if self._outbox.pending:
                self._start()
            self._resumed = True

    @abstractmethod
    def _wake(self) -> None:
        """Let the sender look at the queue again."""

    def _after_fork(self) -> None:
        """Forget the parent's sender, and all waits except the waits that the server asked for."""
        earlier = self._schedule
        self._renew()
        self._schedule.follow(earlier)
        self._outbox.after_fork()

    def _at_exit(self) -> None:  # noqa: B027 (an event loop is gone by then: there is nothing to do)
        """Try to send the queue while the interpreter exits."""


_living: weakref.WeakSet[BaseUplink] = weakref.WeakSet()
_sharing: weakref.WeakValueDictionary[int, BaseUplink] = weakref.WeakValueDictionary()
"""The uplinks that may share their queue with other uplinks."""


def _end() -> None:
    for sending in list(_living):
        sending._at_exit()


atexit.register(_end)
renew_in_children(_living, lambda sending: sending._after_fork())


class UplinkOptions(BaseUplinkOptions, total=False):
    """The keyword arguments of `Uplink`, which `Client` accepts too."""

    transport: Transport | None


class Uplink(BaseUplink):
    """Queues codes and sends them from a background thread, which starts with the first report.

    Many clients can share an uplink, because it handles only codes. For example, a gateway has one client for
    each device behind it. Several threads can use it safely. After a fork the child starts its own thread. A
    queue in memory is empty in the child (the parent sends its reports); a queue in a file is shared.

    Parameters
    ----------
    url
        Base URL of the server, such as "https://reports.example".
    ledger
        The place of the queue. With a `FileLedger`, the queue is in its file, and only clients with this
        ledger can use the uplink. With `PostgresLedgers`, it is in their database, for the clients of all
        accounts. By default the queue is in memory.
    batch_size
        Largest number of codes per request; a full batch is sent immediately.
    interval
        Seconds after which a batch that is not full is sent.
    delay
        Longest random time, in seconds, that a report waits before it may join a batch. With a delay, the
        time of sending reveals less about the time of the event. 0 (default): no delay.
    max_pending
        Largest number of queued reports; when the queue is full, `Client.report` refuses and charges nothing.
    max_age_days
        Days after which a report that could not be sent is dropped.
    request_timeout
        Seconds after which a request without a response counts as failed, even if it makes progress.
    exit_timeout
        Longest time, in seconds, that the exit of the interpreter waits for queued reports to be sent. The
        uplink makes only one attempt then, and does not wait for a network that is down. With a `delay` and a
        file it does not send at all.
    on_event
        Called with an `Event` for each change in the state of reports, from the sending thread (or from the
        reporting thread, if the ledger fails). Its exceptions are logged.
    key
        The server's ingest key, if the server asks for one. It is sent with every batch as ``Authorization:
        Bearer`` and never logged. All devices of an app share one key, because a separate key would identify
        its device.
    insecure
        Whether to send reports and the key over plain HTTP to another host; use this only if another layer
        encrypts them. False (default): plain HTTP is refused, because an observer on the way sees which
        device the codes come from.
    environment
        Source of time and random bits; by default this machine. A test can pass another `Environment`.
    transport
        Sends the requests; by default an `HttpxTransport`. It is closed with the uplink.

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
        # Notified when there is something new to do, and when a parcel is settled. Enter the mutex, not the
        # condition: a signal handler may raise in `Condition.__enter__` once the lock is taken.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._is_news = False
        self._steps = 0
        # Number of troubles when the interpreter began to exit: after one more, nothing is tried again.
        self._last_trouble: int | None = None

    def _start(self) -> None:
        """Make sure that the thread runs; raise `RuntimeError` when the uplink is closed."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._mutex:
            self._check_open()
            if self._thread is None or not self._thread.is_alive():
                # Stored before it runs: a signal handler that raises in between must not lead to two threads.
                thread = self._thread = threading.Thread(target=self._run, name="arcwise-uplink", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # no more threads: the queue stores reports until one can start
                    self._thread = None
                    self._record_failure(error)

    def _attends(self) -> bool:
        try:
            self._start()
        except RuntimeError:  # closed
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
                except Exception as error:  # a defect or a lack of memory; the next attempt may work
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
        """Send one parcel if one is due; return the seconds until the next step."""
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
        except Exception as error:  # a transport may raise anything, and the thread must go on
            self._unanswered(parcel, error)
        except BaseException:  # the next report starts another thread
            self._put_back(parcel)
            raise
        else:
            self._answered(parcel, status, retry_after)

    @property
    def pending(self) -> int:
        """Number of reports that are neither acknowledged nor dropped."""
        return self._pending()

    @property
    def counters(self) -> Counters:
        """Numbers of reports so far, of all clients that share this uplink. See `Client.counters`."""
        return self._counters()

    def flush(self, timeout: float = 10.0) -> bool:
        """Send queued reports without waiting for the interval; return True if all left the queue in time.

        True does not mean that everything arrived: reports that the server finally refuses and reports that
        are too old are dropped. `counters` shows how many were sent and dropped.

        A flush ends random delays and waits between attempts, except waits that the server asked for. If a
        later attempt fails, the sender waits again. The flush does not wait for reports that other threads
        add meanwhile.

        Parameters
        ----------
        timeout
            Longest wait in seconds, also while a request hangs.

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
            if self._thread is threading.current_thread():  # called by `on_event`: it cannot wait for itself
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
                    # The thread does its next step by itself when something is due. If it were woken after
                    # each step, it would never rest.
                    look = not self._changed.wait_for(
                        lambda before=steps: self._closed or self._steps != before,  # type: ignore[misc]
                        min(self._flush_rest(left), threading.TIMEOUT_MAX),
                    )
        except LedgerError as error:
            self._record_ledger_error(error)
            return False

    def close(self, timeout: float = 5.0) -> bool:
        """Flush for at most `timeout` seconds, then stop; return True if no report was left in the queue.

        Reports that are left in memory are dropped; reports in a file are kept for the next run. As with
        `flush`, `counters` shows how many were sent and dropped.

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
        elif thread is not threading.current_thread():  # the thread closes the transport, after its request
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
