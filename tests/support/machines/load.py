"""Devices that keep reporting, each from its own address, and know exactly what was acknowledged."""

from __future__ import annotations

import itertools
import ssl
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import numpy as np

from arcwise.wire import MEDIA_TYPE, Batch, encode_batch, pack_codes

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from arcwise.tasks import Task

__all__ = ["Load"]

_networks = itertools.count(1)
_numbers = itertools.count()
_PER_ADDRESS = 500
"""Fewer than arcwise.toml allows an address in a minute."""
_PATIENCE_SECONDS = 60.0
_sent: dict[int, bytes] = {}  # of all: any can resend another's batch


class Load:
    """Batches of one report each until the block ends; unacknowledged ones are sent again unchanged.

    Parameters
    ----------
    url
        The URL of the proxy or a worker.
    task
        The task of the reports.
    key
        An ingest key.
    certificate
        The certificate to trust.
    senders
        The number of devices, in 127.0.N.0/24.

    Attributes
    ----------
    acknowledged
        The numbers of the batches that were answered 204.
    failures
        Every other answer and broken connection, each followed by another attempt.
    """

    def __init__(self, url: str, task: Task, key: str, certificate: Path | None, senders: int = 6) -> None:
        self._url = f"{url}/v1/tasks/{task.id}/reports"
        self.task = task
        self._headers = {"content-type": MEDIA_TYPE, "authorization": f"Bearer {key}"}
        self._trust = ssl.create_default_context(cafile=certificate) if certificate else True
        self._network = next(_networks)
        self._senders = senders
        self.acknowledged: set[int] = set()
        self.failures: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._threads = [
            threading.Thread(target=self._send, args=(host,), daemon=True)
            for host in range(1, self._senders + 1)
        ]
        for thread in self._threads:
            thread.start()
        self.wait_for(2 * self._senders)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(_PATIENCE_SECONDS)
            assert not thread.is_alive(), self.failures

    def wait_for(self, more: int) -> None:
        """Wait until this many more batches are acknowledged."""
        goal, deadline = len(self.acknowledged) + more, time.monotonic() + _PATIENCE_SECONDS
        while len(self.acknowledged) < goal:
            assert time.monotonic() < deadline, self.failures
            time.sleep(0.005)

    def send_again(self, numbers: set[int]) -> None:
        """Send batches again, as devices do that lost the answer, and see them acknowledged."""
        again = sorted(numbers)
        for host, start in enumerate(range(0, len(again), _PER_ADDRESS), 100):
            with self._device(host) as http:
                for number in again[start : start + _PER_ADDRESS]:
                    assert http.post(self._url, content=_sent[number]).status_code == 204

    def counts(self, numbers: set[int] | None = None) -> list[int]:
        """Return the content of a store that has counted these batches (those acknowledged) once each."""
        codes = self.task.mechanism.kernel.codes
        numbers = self.acknowledged if numbers is None else numbers
        counts: list[int] = np.bincount([n % codes for n in numbers], minlength=codes).tolist()
        return counts

    def _body(self, number: int) -> bytes:
        codes = self.task.mechanism.kernel.codes
        packed = pack_codes([number % codes], 1 if codes <= 256 else 2)
        epoch = self.task.epoch(time.time())
        return encode_batch(Batch(bytes.fromhex(self.task.id), number.to_bytes(16, "big"), epoch, packed))

    def _device(self, host: int) -> httpx.Client:
        transport = httpx.HTTPTransport(local_address=f"127.0.{self._network}.{host}", verify=self._trust)
        return httpx.Client(transport=transport, headers=self._headers, timeout=60)

    def _send(self, host: int) -> None:
        with self._device(host) as http:
            while not self._over.is_set():
                with self._lock:
                    number = next(_numbers)
                    _sent[number] = self._body(number)
                while (answer := self._answer(http, number)) != "204":
                    with self._lock:
                        self.failures[answer] += 1
                    time.sleep(0.05)
                with self._lock:
                    self.acknowledged.add(number)
                time.sleep(0.01)

    def _answer(self, http: httpx.Client, number: int) -> str:
        try:
            return str(http.post(self._url, content=_sent[number]).status_code)
        except httpx.TransportError as error:
            return type(error).__name__
