"""The sending half of a client, with a background thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from arcwise.checks import explained
from arcwise.client.base_uplink import BaseUplink, BaseUplinkOptions
from arcwise.client.checks import check_options, checked_number
from arcwise.client.outbox import Send, Wait
from arcwise.client.transport import HttpxTransport, checked_response
from arcwise.errors import LedgerError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from arcwise.client.ledger import QueueOwner
    from arcwise.client.outbox import Parcel
    from arcwise.client.outcomes import Counters
    from arcwise.client.transport import Transport


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
