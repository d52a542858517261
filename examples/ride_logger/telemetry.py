"""Consent and the client: the only file of the app that knows how rides are reported."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from arcwise.client import Client, FileLedger, inspect

from .question import DEVICE_CAPS, MAX_EPSILON, RIDE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Telemetry:
    """The user's consent, and the client that depends on it.

    There are three states: never agreed (no ledger), agreed, and opted out (the ledger is kept, because
    spending is permanent). A marker file next to the ledger records that a ledger was created. Without the
    marker, a lost ledger would look like a new device, and agreeing again would grant the whole budget a
    second time.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._ledger = folder / "telemetry.db"
        self._marker = folder / "telemetry-was-agreed-to"
        self._url = url

    @property
    def asked(self) -> bool:
        """Whether the user has ever agreed."""
        return self._marker.exists() or self._ledger.exists()

    def agree(self) -> None:
        """Start reporting, or resume it after `decline`."""
        if not self.asked:
            self._ledger.parent.mkdir(parents=True, exist_ok=True)
            FileLedger(self._ledger, create=True).close()
        self._marker.touch()
        with FileLedger(self._ledger) as ledger:
            ledger.opt_in()

    def decline(self) -> None:
        """Drop reports that were not sent, and make no new ones."""
        if self.asked:
            with FileLedger(self._ledger) as ledger:  # without a client, which would start sending
                ledger.opt_out()

    @contextmanager
    def client(self, *, timeout: float = 5.0) -> Iterator[Client]:
        """Open the client; at the end it sends queued reports for `timeout` seconds, and keeps the rest.

        Raises
        ------
        LedgerError
            When the ledger is lost or damaged: the spending is unknown then, so nothing may be reported.
        """
        with FileLedger(self._ledger) as ledger:
            client = Client(
                self._url,
                tasks=[RIDE],
                ledger=ledger,
                caps=DEVICE_CAPS,
                max_epsilon=MAX_EPSILON,
                interval=600,  # rides of ten minutes share a batch
            )
            try:
                yield client
            finally:
                client.close(timeout)

    def status(self) -> str:
        """Return in plain words how much was reported so far, and how much may still be reported."""
        if not self.asked:
            return "Telemetry is off: you have not agreed to it. Nothing about your rides leaves this device."
        if inspect(self._ledger).opted_out:
            return "Telemetry is off: you have opted out. Nothing about your rides leaves this device."
        with self.client(timeout=0) as client:
            ride, total, counters = client.budget(RIDE.name), client.budget(), client.counters
        names = " or ".join(task.name for task in RIDE.tasks)
        lost = sum(counters.dropped.values())
        return (
            f"Telemetry is on. A ride reports its {names}, randomised here: epsilon {RIDE.epsilon:.10g}.\n"
            f"Since you agreed: epsilon {total.epsilon:.10g} is spent; {ride.reports_left} more rides can be "
            "reported, ever.\n"
            f"Reports: {counters.sent} arrived, {counters.pending} wait to be sent, {lost} were given up."
        )
