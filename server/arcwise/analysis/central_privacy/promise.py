"""The central promise of a task: whether the task's kernel keeps it, and the local epsilon that it allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from arcwise.analysis.central_privacy.statement import central
from arcwise.digits import rounded_up
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import EPSILON_MAX, EPSILON_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.central_privacy.statement import CentralPrivacy
    from arcwise.kernels.base import Kernel
    from arcwise.tasks.central import CentralStatement
    from arcwise.tasks.task import Task

_START: Final = 3.0
_SLOPE: Final = 1.5
"""Above this value, a local epsilon grows approximately like the logarithm of the central epsilon."""


def check_promise(task: Task, *, called: str = "") -> CentralPrivacy | None:
    """Return the proved central privacy of a task's kernel, or None for a task without a statement.

    The proof rests on the assumptions of the statement. Raises `CertificateError` if the statement promises
    more than is proved; the message uses `called` instead of the task's name.
    """
    if task.central is None:
        return None
    found = _proved(task, task.central)
    if found.epsilon > task.central.epsilon:
        raise CertificateError(
            f"the central statement of {called or f'task {task.name!r}'} is not true. It promises "
            f"{task.central}; its kernel guarantees epsilon = {rounded_up(found.epsilon, 4)}. Use a "
            f"smaller epsilon than {rounded_up(task.epsilon)} for one report, more reports or fewer releases"
        )
    return found


def largest_local(
    statement: CentralStatement,
    kernel: Callable[[float], Kernel],
    *,
    start: float = _START,
    slack: float = 0.0,
) -> float:
    """Return the largest local epsilon, with three digits, at which the kernel keeps a central promise.

    `kernel` maps a local epsilon to the kernel that a task would have. The search begins at `start`. It may
    end at an epsilon that uses all of the promise except the share `slack`. Raises `ParameterError` if not
    even the least epsilon of a task keeps the promise.

    At the returned epsilon, a computation has shown that the kernel keeps the promise. Without a slack, one
    has also shown that it breaks the promise at the next number of three digits. A still larger epsilon may
    keep the promise, because the weights of kernels are integers.
    """
    known: dict[float, float] = {}

    def central_at(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = _proved(kernel(epsilon), statement).epsilon
        return known[epsilon]

    low, high = 0.0, 0.0
    free = statement.epsilon / (statement.releases * statement.reports_each)  # their sum keeps the promise
    at = _rounded(min(max(start, free, EPSILON_MIN), EPSILON_MAX))
    while True:
        found = central_at(at)
        if found <= statement.epsilon:
            low = at
            if at >= EPSILON_MAX or found >= (1.0 - slack) * statement.epsilon:
                return at
        else:
            high = at
            if at <= EPSILON_MIN:
                raise ParameterError(
                    f"central epsilon {rounded_up(statement.epsilon)} is out of reach: a local epsilon of "
                    f"{EPSILON_MIN:g} has {rounded_up(found, 4)}; use more reports, fewer releases or a "
                    "larger delta"
                )
        step = _next(at, statement.epsilon / found)
        if low and high:
            step = step if low < step < high else _rounded((low * high) ** 0.5)
            if not low < step < high:
                return low
        at = step


def _next(at: float, room: float) -> float:
    """Return the next epsilon to try, if the central epsilon may grow by the factor `room`."""
    # Small local epsilons grow in proportion to the central epsilon, large ones like its logarithm.
    guess = at * room if at < _SLOPE else at + _SLOPE * math.log(room)
    unit = 10.0 ** (math.floor(math.log10(at)) - 2)  # of the third digit
    guess = max(guess, at + unit) if room >= 1.0 else min(guess, at - unit)
    return _rounded(min(max(guess, EPSILON_MIN), EPSILON_MAX))


def _rounded(epsilon: float) -> float:
    return float(f"{epsilon:.3g}")


def _proved(task: Task | Kernel, statement: CentralStatement) -> CentralPrivacy:
    return central(
        task,
        statement.reports,
        delta=statement.delta,
        honest=statement.honest,
        reports_each=statement.reports_each,
        releases=statement.releases,
    )
