"""Caps on a device's spending, counted in whole millionths of epsilon and units of delta.

Charges are rounded up. A cap of epsilon is rounded up too, by less than a millionth, so that a cap of one
report's epsilon allows one report. A cap of delta is rounded down.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from arcwise.checks import checked_integer, explained, real_or_nan
from arcwise.digits import rounded_up
from arcwise.errors import ParameterError, TaskError
from arcwise.kernels.certificate import UNIT, exact_epsilon
from arcwise.values import Value

DAY: Final = 86_400
"""The number of seconds in a day, for windows of caps and lengths of epochs."""
MAX_PERIOD: Final = 366 * DAY
SECONDS: Final = "; it is in seconds, up to a year"


def micro_epsilon(epsilon: float) -> int:
    """Return the charge for a privacy loss of `epsilon`, in millionths, rounded up.

    Parameters
    ----------
    epsilon
        The loss, at least 0.

    Examples
    --------
    >>> micro_epsilon(0.1), micro_epsilon(1 / 3)
    (100000, 333334)
    """
    return math.ceil(exact_epsilon(epsilon) * 1_000_000)


class Charge(NamedTuple):
    """The cost of reports for a device, in integers that add up exactly.

    Attributes
    ----------
    micro_epsilon
        Millionths of epsilon, rounded up for each report.
    delta_units
        Units of 2**-64, rounded up for each report; 0 for mechanisms that are purely epsilon-LDP.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.tasks import Task
    >>> Task("heading", Circle(360), epsilon=0.5).charge
    Charge(micro_epsilon=500000, delta_units=0)
    """

    micro_epsilon: int
    delta_units: int


class Caps(Value):
    """The most that one device may spend on a task or on a group; a report that would exceed it is not made.

    Parameters
    ----------
    lifetime
        Total epsilon over the life of the device, rounded up to whole millionths. ``None`` (default): no cap.
    rolling
        Epsilon within any `window` seconds. ``None`` (default): no cap.
    window
        Length of the rolling window in seconds.
    lifetime_delta
        Total delta over the life of the device, from 2**-64 to below 1. ``None`` (default): no cap.
    rolling_delta
        Delta within any `window` seconds, from 2**-64 to below 1. ``None`` (default): no cap.

    Raises
    ------
    ParameterError
        When a cap is not a number within its bounds, or the window is not a positive integer.

    Examples
    --------
    >>> caps = Caps(lifetime=5.0, rolling=1.0, window=DAY, lifetime_delta=1e-6)
    >>> caps.lifetime_micro, caps.rolling_micro, caps.lifetime_delta_units, caps.rolling_delta_units
    (5000000, 1000000, 18446744073709, None)
    """

    __slots__ = __match_args__ = ("lifetime", "rolling", "window", "lifetime_delta", "rolling_delta")

    lifetime: float | None
    rolling: float | None
    window: int
    lifetime_delta: float | None
    rolling_delta: float | None

    @explained
    def __init__(
        self,
        lifetime: float | None = None,
        rolling: float | None = None,
        window: int = DAY,
        lifetime_delta: float | None = None,
        rolling_delta: float | None = None,
    ) -> None:
        self._set(
            lifetime=_epsilon_cap(lifetime, "lifetime"),
            rolling=_epsilon_cap(rolling, "rolling"),
            window=checked_integer("window", window, 1, MAX_PERIOD, advice=SECONDS),
            lifetime_delta=_delta_cap(lifetime_delta, "lifetime_delta"),
            rolling_delta=_delta_cap(rolling_delta, "rolling_delta"),
        )

    @property
    def lifetime_micro(self) -> int | None:
        """The lifetime cap in micro-epsilon."""
        return None if self.lifetime is None else round(self.lifetime * 1_000_000)

    @property
    def rolling_micro(self) -> int | None:
        """The rolling cap in micro-epsilon."""
        return None if self.rolling is None else round(self.rolling * 1_000_000)

    @property
    def lifetime_delta_units(self) -> int | None:
        """The lifetime cap of delta in units of 2**-64."""
        return None if self.lifetime_delta is None else int(self.lifetime_delta * UNIT)

    @property
    def rolling_delta_units(self) -> int | None:
        """The rolling cap of delta in units of 2**-64."""
        return None if self.rolling_delta is None else int(self.rolling_delta * UNIT)


def check_caps(caps: Caps, charge: Charge, what: str) -> None:
    """Raise `TaskError` if a cap does not allow a single charge; `what` names the charged item."""
    for kind, micro in (("lifetime", caps.lifetime_micro), ("rolling", caps.rolling_micro)):
        if micro is not None and micro < charge.micro_epsilon:
            raise TaskError(
                f"caps.{kind} = {rounded_up(micro / 1e6, 15)} allows no {what}: one costs epsilon = "
                f"{rounded_up(charge.micro_epsilon / 1e6, 15)}"
            )
    for kind, units in (
        ("lifetime_delta", caps.lifetime_delta_units),
        ("rolling_delta", caps.rolling_delta_units),
    ):
        if units is not None and units < charge.delta_units:
            raise TaskError(
                f"caps.{kind} = {rounded_up(units / UNIT)}, {units} / 2**64, allows no {what}: one costs "
                f"delta = {rounded_up(charge.delta_units / UNIT)}, {charge.delta_units} / 2**64"
            )


def _epsilon_cap(cap: object, name: str) -> float | None:
    """Return a cap as the float nearest to a whole number of micro-epsilon, to be compared with charges."""
    if cap is None:
        return None
    number = real_or_nan(cap)
    if not 0 < number <= 1e9:
        raise ParameterError(f"{name} must be None or an epsilon above 0 and up to 1e9, got {cap!r}")
    return micro_epsilon(number) / 1_000_000


def _delta_cap(cap: object, name: str) -> float | None:
    """Return a cap as whole units of 2**-64, rounded down, which a float holds exactly."""
    if cap is None:
        return None
    number = real_or_nan(cap)
    if not 1 / UNIT <= number < 1:
        raise ParameterError(f"{name} must be None or a delta from 2**-64 to below 1, got {cap!r}")
    return math.floor(number * UNIT) / UNIT
