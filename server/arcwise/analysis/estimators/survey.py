"""The reports of a sample, and values shared by its estimators, each computed once when first used.

Let no device send more than m of n reports. The reports estimate the mean over the devices, with an error
from the devices' randomness, which is new in each report. The mean over the devices has at most the variance
of the mean of n/m people. So with m_i reports of device i,

    Var = V_own / n + sum_i m_i^2 Var(x_i) / n^2  <=  V_own / n + m V_between / n,

for the mean weighted by reports, even if values depend on m_i. Here V_own is the variance of a device's
randomness, and V_between that of the devices' values x_i. Memoised reports repeat their randomness too. Then
n reports contain at least as much information as n/m reports of different devices.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from arcwise.analysis.counts import check_counts
from arcwise.analysis.estimators.bounds import Bounds
from arcwise.analysis.estimators.inference_target import Users, check_sampled, check_target, few_note
from arcwise.analysis.estimators.result import all_notes
from arcwise.analysis.estimators.tails import Sample, furthest
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.checks import checked_bool, real_or_nan, shown
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.bounds import Evidence
    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.likelihood.em import EMFit
    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray


class Profile(Protocol):
    """Input of the estimators of shares and places: a `Survey`, or the population that strata make up."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the reports."""

    @property
    def few(self) -> str:
        """The note on few reports, or ""; for several samples, the note on the smallest of them."""

    @property
    def probabilities(self) -> FloatArray:
        """The fitted node distribution, shape (N,), from which point values are computed."""

    @property
    def bounds(self) -> Evidence:
        """The source of upper bounds of shares."""


class Survey:
    """The reports of one sample of devices.

    `counts` holds the reports per code, shape (K,), with at least one report; only `of` checks them.
    `target`, `sampled`, `reports_per_device` and `memoised` are as for `estimate`, and `probabilities` is a
    node distribution, shape (N,), that replaces the fit.

    In the attribute `counts`, numbers of memoised reports are divided by the most reports of a device, so
    they may be fractions; `n` is their sum. `whole` holds the same counts rounded to integers
    (`whole_counts`). `reports` is the number of all reports, and `devices` the least number of devices that
    sent them. `repeats` is the largest number of reports of one device that differ only in their randomness;
    it is 1 for memoised reports.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        counts: FloatArray,
        *,
        target: Target = "population",
        sampled: float = 1.0,
        reports_per_device: float | None = None,
        memoised: bool = False,
        probabilities: FloatArray | None = None,
    ) -> None:
        check_target(target)
        self.mechanism = mechanism
        self.target, self.sampled = target, check_sampled(sampled)
        self.reports = float(counts.sum())
        memoised = checked_bool("memoised", memoised)
        most = min(check_reports_per_device(reports_per_device, memoised=memoised), self.reports)
        self.devices = least_devices(self.reports, most)
        self.whole = whole_counts(counts, most) if memoised else counts
        self.counts, self.repeats = (counts / most, 1.0) if memoised else (counts, most)
        self.n = self.devices if memoised else self.reports
        if probabilities is not None:
            self.probabilities = probabilities

    @classmethod
    def of(cls, task: Task, counts: ArrayLike, *, name: str = "counts", **options: Any) -> Survey:
        """Return the survey of a task's counts, or raise `ParameterError` with `name` in the message."""
        return cls(task.mechanism, check_counts(counts, task.mechanism.kernel.codes, name), **options)

    def __repr__(self) -> str:
        return f"<Survey of {self.reports:,g} reports by {self.mechanism.name}, target {self.target}>"

    @property
    def few(self) -> str:
        """The note on few reports, or few devices, or ""."""
        return few_note(self.devices, "devices" if self.devices < self.reports else "reports")

    @cached_property
    def fit(self) -> EMFit:
        """The fit of the node distribution."""
        return fit_held_out(self.mechanism, self.whole)

    @cached_property
    def probabilities(self) -> FloatArray:
        """The fitted node distribution, shape (N,)."""
        return self.fit.probabilities

    @cached_property
    def bounds(self) -> Bounds:
        """Bounds of shares that hold for every population."""
        return Bounds(self.mechanism, self.whole, reports_per_device=self.repeats)

    @cached_property
    def users(self) -> Users | None:
        """The users to whom intervals refer; None for the population."""
        return Users(self.probabilities, self.sampled) if self.target == "users" else None


def check_enough(name: str, survey: Survey) -> None:
    """Raise `ParameterError` with the name of a sample if fewer than two devices sent its reports."""
    if are_enough(survey.devices):
        return
    reports = f"{survey.reports:,.0f}"
    if survey.devices == survey.reports:
        raise ParameterError(f"{name} must hold at least 2 reports, got {reports}")
    raise ParameterError(
        f"{name} must hold reports of at least 2 devices, got {reports} of at least {survey.devices:g}"
    )


def devices_of(surveys: Iterable[Survey]) -> int | None:
    """Return the least number of devices behind the reports, or None if each device sent one report."""
    counted = [(each.devices, each.reports) for each in surveys]
    if all(devices == reports for devices, reports in counted):
        return None
    return math.ceil(sum(devices for devices, _ in counted))


def check_reports_per_device(most: object, *, memoised: bool = False) -> float:
    """Return the most reports that a device may have sent, 1 for None, or raise `ParameterError`."""
    number = 1.0 if most is None else real_or_nan(most)
    if not 1 <= number < math.inf:
        raise ParameterError(
            "reports_per_device must be a number of at least 1, the most that one device may have sent, "
            f"got {shown(most)}"
        )
    if memoised and number == 1:
        raise ParameterError("memoised needs reports_per_device: how often a device may repeat an answer")
    return number


def least_devices(reports: float, most: float) -> float:
    """Return the least number of devices behind `reports`, if a device sends at most `most`."""
    return reports / min(most, reports) if reports else 0.0


def are_enough(devices: float) -> bool:
    """Return whether comparisons can estimate the variation of reports from this many devices."""
    return devices >= 2.0


def most_reports(task: Task, epochs: int) -> float:
    """Return the most reports that the task's caps allow a device in `epochs` consecutive epochs.

    Without caps the result is inf, but 1 for a single epoch.
    """
    caps, charge, seconds = task.caps, task.charge, epochs * task.epoch_seconds
    windows = -(-seconds // caps.window)
    each = (
        (caps.lifetime_micro, charge.micro_epsilon, 1),
        (caps.rolling_micro, charge.micro_epsilon, windows),
        (caps.lifetime_delta_units, charge.delta_units, 1),
        (caps.rolling_delta_units, charge.delta_units, windows),
    )
    allowed = [cap // cost * times for cap, cost, times in each if cap is not None and cost]
    return min(allowed, default=1.0 if epochs == 1 else math.inf)


def unsaid_reports(said: float | None, *samples: tuple[Task, int]) -> float:
    """Return how many reports of a device are treated as those of different devices: 1 if `said` is given.

    A sample is a task and a number of epochs. Of several samples, the one in which caps allow the most
    reports counts.
    """
    return 1.0 if said is not None else max(most_reports(*sample) for sample in samples)


def caps_note(most: float, width: str = "") -> str:
    """Return the note on `most` reports of a device from `unsaid_reports`, or ""."""
    if most <= 1.0:
        return ""
    caps = "has no caps" if math.isinf(most) else f"has caps that let a device send {most:,.0f} of these"
    return (
        "computed as if each report came from another device, but the task "
        f"{caps}{width}: set reports_per_device"
    )


def noted(averages: Mapping[str, Any], note: str) -> dict[str, Any]:
    """Return parts of a result with another note on the mean or, on a circle, the direction."""
    parts = dict(averages)
    name = next(each for each in ("mean", "direction", "resultant_length") if parts.get(each) is not None)
    parts[name] = replace(parts[name], notes=all_notes(parts[name].notes, note))
    return parts


def whole_counts(counts: FloatArray, most: float) -> FloatArray:
    """Return counts divided by a number, as integers; each cumulative sum is off by at most 1/2."""
    upto = np.floor(np.cumsum(counts) / most + 0.5)
    upto[-1] = max(upto[-1], 1.0)
    return np.diff(upto, prepend=0.0)


def between_devices(kernel: Kernel, values: FloatArray, counts: FloatArray, law: FloatArray) -> Sample:
    """Return the average of a number per code as that of a number per device, without randomness.

    The fitted node distribution `law`, shape (N,), only weights the variances of the rows.

    A device's number is the mean of its row, so it lies between two bounds; possibly no report shows the
    furthest row yet. The variance is that of the reports minus the part due to their randomness, plus one
    standard error. It is at most that of a law on the two bounds only (Bhatia and Davis 2000).
    """
    n = float(counts.sum())
    centred = values - float(counts @ values) / n
    means = node_means(kernel, centred)
    own = float(law @ (node_means(kernel, centred**2) - means**2))
    total = float(counts @ centred**2) / n
    error = math.sqrt(max(float(counts @ centred**4) / n - total**2, 0.0) / n)
    unsure = math.sqrt(total / n)
    low, high = min(float(means.min()), 0.0) - unsure, max(float(means.max()), 0.0) + unsure
    return Sample(1.0, n, high, min(max(total - own, 0.0) + error, -low * high), 0.0)


def devices_reach(sample: Sample, devices: float, quantile: float) -> float:
    """Return how far above its average the mean of a device's number may lie, for `devices` devices."""
    if not sample.room:  # all reports already have the largest number that is possible for a device
        return 0.0
    return furthest([sample._replace(n=devices)], quantile)
