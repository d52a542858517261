"""The sending half of a client, with a background thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from arcwise.client.sending import Sending, SendingOptions, checked_number
from arcwise.client.transport import HttpxTransport

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from arcwise.client.outbox import PendingBatch
    from arcwise.client.transport import Transport

__all__ = ["Uplink", "UplinkOptions"]


class UplinkOptions(SendingOptions, total=False):
    """The keyword arguments of `Uplink`, which `Client` takes too."""

    transport: Transport | None


class Uplink(Sending):
    """Queues codes and sends them from a background thread, which starts with the first report.

    Many clients can share one, such as a gateway's for the devices behind it: an uplink only ever sees
    codes. It is safe to use from several threads. After a fork the child's uplink is empty (the parent sends
    what it had queued) and starts its own thread.

    Parameters
    ----------
    url
        Base URL of the server, such as "https://reports.example".
    batch_size
        Codes per request; a full batch is sent at once.
    interval
        After how many seconds a batch is sent that is not full.
    max_pending
        Most reports to queue; with a full queue `Client.report` returns False and charges nothing.
    max_age_days
        After how many days a batch that could not be sent is dropped.
    request_timeout
        Seconds without any progress after which a request counts as failed.
    transport
        What to send with; an `HttpxTransport` unless given. Closed with the uplink.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    """

    def __init__(
        self, url: str, *, transport: Transport | None = None, **options: Unpack[SendingOptions]
    ) -> None:
        self._transport = HttpxTransport() if transport is None else transport
        super().__init__(url, **options)

    def _empty(self) -> None:
        super()._empty()
        self._thread: threading.Thread | None = None
        # Notified when there is something new to do, and when a batch is finished.
        self._changed = threading.Condition(self._outbox.lock)

    def admit(self) -> bool:
        """Return whether there is room for one more report, and count it as lost when there is none.

        Raises
        ------
        RuntimeError
            When the uplink is closed.
        """
        if self._thread is None:
            self._start()
        return self._outbox.has_room()

    def _start(self) -> None:
        with self._changed:
            self._check_open()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="arcwise-uplink", daemon=True)
                thread.start()
                self._thread = thread

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    _finished = _wake

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    found = self._next()
                    while isinstance(found, float):
                        if self._closed:
                            return
                        self._changed.wait(min(found, threading.TIMEOUT_MAX))
                        found = self._next()
                self._send(found)
        finally:
            self._transport.close()

    def _send(self, batch: PendingBatch) -> None:
        try:
            status, retry_after = self._transport.post(
                self._address(batch), batch.seal(), self._headers(), self._request_timeout
            )
        except Exception as error:  # a transport may raise anything, and the thread must live
            self._unanswered(batch, error)
        else:
            self._answered(batch, status, retry_after)

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is queued without waiting for the interval; True when nothing of it is left in time.

        Nothing left does not mean that all of it arrived: what the server refuses for good, and what is too
        old, is dropped. `counters` tells how much was sent and how much was dropped.

        Waits between attempts start anew, except those that the server asked for. Reports that come in
        meanwhile, from other threads, are not waited for.

        Parameters
        ----------
        timeout
            Seconds; kept to even while a request hangs.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        timeout = checked_number("timeout", timeout)
        deadline = time.monotonic() + timeout
        with self._changed:
            batches = self._hurry()
            if batches and self._thread is None:
                self._start()
            self._changed.notify_all()
            while not all(batch.done for batch in batches):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
        return True

    def close(self, timeout: float = 5.0) -> bool:
        """Flush, drop what is left after `timeout` seconds, and stop; True when nothing was left to drop.

        As with `flush`, `counters` tells what became of the reports.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        timeout = checked_number("timeout", timeout)
        if self._closed:
            return True
        deadline = time.monotonic() + timeout
        self.flush(timeout)
        with self._changed:
            thread, self._thread = self._thread, None
            nothing_left = self._shut()
            self._changed.notify_all()
        if thread is None:
            self._transport.close()
        else:  # it closes the transport; a request that hangs ends at its own timeout
            thread.join(max(0.0, deadline - time.monotonic()))
        return nothing_left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
