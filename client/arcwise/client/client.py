"""The client: values go in, charged and randomised codes go to the uplink. No value is ever kept."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from arcwise.client.ledger import MemoryLedger
from arcwise.client.sending import Sending, checked_number
from arcwise.client.uplink import Uplink
from arcwise.errors import CertificateError, ParameterError, UnknownTaskError
from arcwise.kernels.certificate import UNIT
from arcwise.randomness import SYSTEM
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from arcwise.client.ledger import Ledger
    from arcwise.client.outbox import Counters
    from arcwise.client.uplink import UplinkOptions
    from arcwise.randomness import Randomness

__all__ = ["Client", "Reporter"]

UplinkT = TypeVar("UplinkT", bound=Sending)


@lru_cache(maxsize=256, typed=True)
def _verified(tasks: tuple[object, ...], max_epsilon: object, max_delta: object) -> dict[str, Task]:
    """Return the tasks by name, each with its certificate checked.

    Cached, since tasks are immutable: the second client of the same tasks costs a look-up.
    """
    if not tasks:
        raise ParameterError("tasks must hold at least one Task")
    ceiling = math.inf
    if max_epsilon is not None:
        ceiling = _number(max_epsilon)
        if not ceiling > 0:
            raise ParameterError(f"max_epsilon must be None or a number above 0, got {max_epsilon!r}")
    if not 0 <= _number(max_delta) < 1:
        raise ParameterError(f"max_delta must be a number in [0, 1), got {max_delta!r}")
    delta_ceiling = Fraction(_number(max_delta)) * UNIT
    by_name: dict[str, Task] = {}
    for task in tasks:
        if not isinstance(task, Task):
            raise ParameterError(f"tasks must be Tasks, got {task!r}")
        if task.name in by_name:
            raise ParameterError(f"tasks must have different names, got {task.name!r} twice")
        certificate = task.mechanism.certificate()
        if certificate.epsilon > ceiling:
            raise CertificateError(
                f"a report to task {task.name!r} spends epsilon = {certificate.epsilon!r}, "
                f"more than max_epsilon = {max_epsilon!r}"
            )
        if certificate.delta > delta_ceiling:
            raise CertificateError(
                f"a report to task {task.name!r} spends delta = {certificate.delta / UNIT:.6g} "
                f"(exactly {certificate.delta} / 2**64), more than max_delta = {max_delta!r}"
            )
        by_name[task.name] = task
    return by_name


def _number(value: object) -> float:
    """Return a real number as a float, NaN for anything else and for what is beyond the range of a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


class Reporter(Generic[UplinkT]):
    """What `Client` and `AsyncClient` share: everything but waiting."""

    __slots__ = ("_ledger", "_owns_uplink", "_randomness", "_tasks", "_uplink")

    def __init__(
        self,
        uplink: UplinkT,
        *,
        owns_uplink: bool,
        tasks: Iterable[Task],
        ledger: Ledger | None,
        max_epsilon: float | None,
        max_delta: float,
        randomness: Randomness,
    ) -> None:
        try:
            self._tasks = _verified(tuple(tasks), max_epsilon, max_delta)
        except TypeError as error:  # not iterable, or not hashable as a Task is
            raise ParameterError(f"tasks must be an iterable of Task: {error}") from error
        if not randomness.secure and not uplink.is_loopback():
            raise ParameterError(
                f"randomness must be secure for a server on another machine, got "
                f"{type(randomness).__name__} for {uplink.url!r}"
            )
        self._uplink = uplink
        self._owns_uplink = owns_uplink
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._randomness = randomness

    def _report(self, name: str, value: Any) -> bool:
        task = self._task(name)
        task.domain.to_unit(value)  # a value that is refused must cost nothing
        if not self._uplink.admit():
            return False
        now = time.time()
        if not self._ledger.charge(task, now):
            return False
        # Charged before it exists: whatever fails from here on, no report leaves without its charge.
        code = task.mechanism.randomize(value, randomness=self._randomness)
        self._uplink.put(task, task.epoch(now), code)
        return True

    def _task(self, name: str) -> Task:
        try:
            return self._tasks[name]
        except KeyError:
            known = ", ".join(repr(known) for known in self._tasks)
            raise UnknownTaskError(f"no task {name!r}; this client has {known}") from None

    def spent(self, name: str) -> float:
        """Return the epsilon that this task's reports have spent in all.

        Raises
        ------
        UnknownTaskError
            When the client has no task of this name.
        """
        return self._ledger.spent(self._task(name)) / 1_000_000

    @property
    def pending(self) -> int:
        """Reports of the uplink, all its clients', that are neither acknowledged nor dropped."""
        return self._uplink.pending

    @property
    def counters(self) -> Counters:
        """What became of the reports so far: pending, sent, dropped by reason, and lost to a full queue.

        They are those of the uplink, so of all clients that share it. After `flush` returned True, `sent`
        and `dropped` tell what arrived and what was given up. When a report returned False, `lost` tells why:
        it has grown by one for a full queue, and has not for a cap.

        Examples
        --------
        >>> from arcwise.client import Client
        >>> from arcwise.domains import Circle
        >>> from arcwise.tasks import Task
        >>> client = Client("http://127.0.0.1:8000", tasks=[Task("heading", Circle(360), epsilon=1.0)])
        >>> client.counters
        Counters(pending=0, sent=0, dropped={}, lost=0)
        """
        return self._uplink.counters


class Client(Reporter[Uplink]):
    """Reports values under local differential privacy. Safe to use from several threads.

    Parameters
    ----------
    url
        The server's base URL, or an `Uplink` that several clients share.
    tasks
        What can be reported to. They belong to the app: nothing that a server says changes them.
    ledger
        Where spending is written down; a new `MemoryLedger` unless given.
    max_epsilon
        Largest epsilon that one report may spend; a task above it is refused. ``None`` (default): no limit.
    max_delta
        Largest delta that one report may spend, in [0, 1); a task whose exact delta is above it is refused.
        0 (default): pure epsilon only. The ledger charges epsilon and does not charge delta yet, and a task's
        caps bound epsilon only: who allows a delta above 0 must count reports, each of which spends it again.
    randomness
        The operating system's CSPRNG. Anything that is not secure is taken only for a server on this machine.
    options
        With a URL: the keyword arguments of `Uplink`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    CertificateError
        When a task's certificate does not hold, or is above `max_epsilon` or `max_delta`.

    Notes
    -----
    `close`, and leaving a ``with`` block, sends what is queued and stops an uplink that the client made
    itself. A shared uplink is left alone: whoever made it flushes and closes it.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.tasks import Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0)
    >>> client = Client("http://127.0.0.1:8000", tasks=[heading], max_epsilon=1.0)
    >>> client.spent("heading")
    0.0
    """

    __slots__ = ()

    def __init__(
        self,
        url: str | Uplink,
        *,
        tasks: Iterable[Task],
        ledger: Ledger | None = None,
        max_epsilon: float | None = None,
        max_delta: float = 0.0,
        randomness: Randomness = SYSTEM,
        **options: Unpack[UplinkOptions],
    ) -> None:
        shared = isinstance(url, Uplink)
        if shared and options:
            raise ParameterError(
                f"{', '.join(options)}: give these to the Uplink, not to a Client that shares it"
            )
        super().__init__(
            url if isinstance(url, Uplink) else Uplink(url, **options),
            owns_uplink=not shared,
            tasks=tasks,
            ledger=ledger,
            max_epsilon=max_epsilon,
            max_delta=max_delta,
            randomness=randomness,
        )

    def report(self, name: str, value: Any) -> bool:
        """Charge, randomise and queue one value; False when a cap or a full queue stopped it, at no charge.

        `counters` tells which of the two: a full queue adds one to its `lost`, a cap does not. Network
        trouble is never raised here: the report waits in the queue.

        Parameters
        ----------
        name
            The task.
        value
            A real number in the task's domain.

        Raises
        ------
        UnknownTaskError
            When the client has no task of this name.
        DomainError
            When the value is not in the task's domain; nothing is charged then.
        RuntimeError
            When the uplink is closed.
        """
        return self._report(name, value)

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
        """Flush and close the uplink, unless it is shared; True when nothing was left queued to drop.

        As with `flush`, `counters` tells what became of the reports.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        """
        timeout = checked_number("timeout", timeout)
        return self._uplink.close(timeout) if self._owns_uplink else True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
