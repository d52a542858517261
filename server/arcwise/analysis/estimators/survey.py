"""The reports of a sample, and what its estimators have in common: computed once, when it is asked for."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from arcwise.analysis.counts import check_counts
from arcwise.analysis.estimators.bounds import Bounds
from arcwise.analysis.estimators.devices import (
    are_enough,
    check_reports_per_device,
    least_devices,
    whole_counts,
)
from arcwise.analysis.estimators.inference_target import Users, check_sampled, check_target
from arcwise.analysis.estimators.small_samples import few_note
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.checks import checked_bool
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.bounds import Evidence
    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.likelihood.em import EMFit
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray


class Profile(Protocol):
    """What estimators of shares and places are given: a `Survey`, or what strata make up together."""

    @property
    def mechanism(self) -> Mechanism:
        """Of the reports."""

    @property
    def few(self) -> str:
        """The note on few reports, or ""; of several samples, on the smallest one."""

    @property
    def probabilities(self) -> FloatArray:
        """The fitted node distribution, shape (N,): where point values come from."""

    @property
    def bounds(self) -> Evidence:
        """What gives upper bounds of shares."""


class Survey:
    """The reports of one sample of devices.

    `counts` holds the reports per code, shape (K,), with at least one report; they are checked by `of` only.
    `target`, `sampled`, `reports_per_device` and `memoised` are as for `estimate`, and `probabilities` is a
    node distribution, shape (N,), that replaces the fit.

    The attributes `counts` and `n` (their sum) take memoised reports of one device together, so they need not
    be whole; `whole` holds the same counts in whole numbers. `reports` is the number of all reports, and
    `devices` the least number of devices that they come from. `repeats` is the largest number of reports of a
    device that differ in nothing but its randomness: 1 for memoised ones.
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
    def of(
        cls,
        task: Task,
        counts: ArrayLike,
        *,
        target: Target = "population",
        sampled: float = 1.0,
        reports_per_device: float | None = None,
        memoised: bool = False,
        name: str = "counts",
    ) -> Survey:
        """Return the survey of a task's counts, or raise `ParameterError` that names them."""
        numbers = check_counts(counts, task.mechanism.kernel.codes, name)
        return cls(
            task.mechanism,
            numbers,
            target=target,
            sampled=sampled,
            reports_per_device=reports_per_device,
            memoised=memoised,
        )

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
        """The users whom intervals are for; None for the population."""
        return Users(self.probabilities, self.sampled) if self.target == "users" else None


def check_enough(name: str, survey: Survey) -> None:
    """Raise `ParameterError` with the name of a sample unless at least two devices sent its reports."""
    if are_enough(survey.devices):
        return
    reports = f"{survey.reports:,.0f}"
    if survey.devices == survey.reports:
        raise ParameterError(f"{name} must hold at least 2 reports, got {reports}")
    raise ParameterError(
        f"{name} must hold reports of at least 2 devices, got {reports} of at least {survey.devices:g}"
    )


def devices_of(surveys: Iterable[Survey]) -> int | None:
    """Return from how many devices reports are at least, or None where each is from one of its own."""
    counted = [(each.devices, each.reports) for each in surveys]
    if all(devices == reports for devices, reports in counted):
        return None
    return math.ceil(sum(devices for devices, _ in counted))
