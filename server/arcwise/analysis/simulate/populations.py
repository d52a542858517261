"""The named populations, on the unit domain: the data sets on which estimators are studied.

Their distribution functions, quantiles, means and trigonometric moments are exact. The populations of flights
and weather are the empirical laws of the records.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.simulate.laws import Atoms, Beta, CutNormal, Histogram, Mixture, VonMises
from arcwise.analysis.simulate.records import read_records
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.simulate.laws import Population
    from arcwise.typing import FloatArray


def uniform() -> Population:
    """Return the uniform distribution on the whole domain."""
    return Histogram([0.0, 1.0], [1.0])


def _two_bumps() -> Population:
    """0.5 N(0.3, 0.05^2) + 0.5 N(0.7, 0.08^2); the mixture is cut to [0, 1]."""
    parts = (CutNormal(0.3, 0.05), CutNormal(0.7, 0.08))
    inside = np.array([part.inside for part in parts])
    return Mixture(inside / inside.sum(), parts)


def _known(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]


@cache
def _arrival_delays() -> Population:
    """Arrival delays in minutes, clipped to [-60, 180] and rescaled."""
    delays = _known(read_records("flights.csv.zip", ["arr_delay"])["arr_delay"].to_numpy(np.float64))
    return Atoms((delays.clip(-60, 180) + 60) / 240)


@cache
def _departures() -> Population:
    """Scheduled departures; 517.0 is 5:17."""
    clock = _known(read_records("flights.csv.zip", ["sched_dep_time"])["sched_dep_time"].to_numpy(np.float64))
    return Atoms((clock // 100 + clock % 100 / 60) % 24 / 24)


@cache
def _wind() -> Population:
    return Atoms(
        _known(read_records("weather.csv", ["wind_dir"])["wind_dir"].to_numpy(np.float64)) % 360 / 360
    )


INTERVAL: dict[str, Callable[[], Population]] = {
    "uniform": uniform,
    "beta25": lambda: Beta(2.0, 5.0),
    "arcsine": lambda: Beta(0.5, 0.5),
    "two-bumps": _two_bumps,
    "atoms": lambda: Mixture([0.5, 0.5], (Atoms([0.0, 1.0], [0.6, 0.4]), uniform())),
    "arrival-delays": _arrival_delays,
}
"""On an interval: uniform, beta(2, 5), beta(1/2, 1/2), two normals, 0.3 at 0 and 0.2 at 1, delays."""

CIRCLE: dict[str, Callable[[], Population]] = {
    "uniform": uniform,
    "von-mises": lambda: VonMises(0.0, 2.0),
    "two-directions": lambda: Mixture([0.6, 0.4], (VonMises(0.0, 4.0), VonMises(2.5 / (2 * math.pi), 8.0))),
    "departures": _departures,
    "wind": _wind,
}
"""On a circle: uniform, von Mises(0, 2), 0.6 von Mises(0, 4) + 0.4 von Mises(2.5, 8), departures, wind."""

RECORDS = ("arrival-delays", "departures", "wind")
"""Populations made from records, which need the extra `demo`."""


def named_population(name: str, *, circular: bool) -> Population:
    """Return a named population; those in `RECORDS` need the extra `demo`."""
    known = CIRCLE if circular else INTERVAL
    if name not in known:
        raise ParameterError(
            f"name of a population on {'a circle' if circular else 'an interval'} must be one of "
            f"{', '.join(known)}; got {name!r}"
        )
    return known[name]()
