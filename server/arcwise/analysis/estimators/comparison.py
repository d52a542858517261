"""Comparisons of two samples, or of a sample with a given population, in every quantity of the domain.

`compare_samples` and `compare_reference` return a `Comparison`. Its intervals and its test are valid for all
populations. `differences` and `same_population` contain the estimators of the parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.counts import check_counts, checked_task, same_codes, same_units
from arcwise.analysis.documents import checked_document
from arcwise.analysis.estimators.differences import (
    bin_differences,
    cdf_differences,
    direction_difference,
    length_difference,
    mean_difference,
    quantile_differences,
    share_difference,
)
from arcwise.analysis.estimators.direction import direction
from arcwise.analysis.estimators.estimation import unwrapped_estimate
from arcwise.analysis.estimators.inference_target import check_level
from arcwise.analysis.estimators.quantiles import check_no_origin, cut_at, opposite
from arcwise.analysis.estimators.result import (
    Shares,
    Value,
    of_devices,
    parts_from_dict,
    parts_to_dict,
    share_name,
)
from arcwise.analysis.estimators.same_population import SmoothTest, same_as, same_population
from arcwise.analysis.estimators.shares import bin_ends, checked_between, unit_ends
from arcwise.analysis.estimators.survey import (
    Survey,
    caps_note,
    check_enough,
    devices_of,
    noted,
    unsaid_reports,
)
from arcwise.analysis.shown import Shown
from arcwise.analysis.simulate.counts import as_population, node_law
from arcwise.analysis.simulate.truth import NO_DIRECTION, Truth, on_lattice
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.estimators.result import Band
    from arcwise.analysis.simulate.laws import Population
    from arcwise.notebook import Form
    from arcwise.tasks import Task

_HEAD = ("task", "task_id", "n", "level", "unit")


@dataclass(frozen=True, repr=False)
class Comparison(Shares, Shown):
    """Differences between another population and the estimated one: the other's numbers minus the estimates.

    Attributes
    ----------
    task, task_id, n
        The name and the id of the estimated sample's task, and the number of its reports.
    other
        The other sample or population, in words.
    other_n
        The number of the other sample's reports; None for a given population.
    level
        The level of every interval separately; for `cdf`, the level of all its intervals together.
    mean
        The difference of means, on an interval.
    direction, resultant_length
        The differences on a circle; the difference of directions is the shorter way round.
    quantiles
        The differences by level. On a circle quantiles are counted upwards from an origin; without an origin
        there are none.
    shares
        Differences by "low:high", as requested.
    bins
        Differences of `estimate`'s bins, if bands were requested.
    cdf
        Differences of the distribution functions by place, with intervals that hold at all places together.
        Only on an interval, if bands were requested.
    unit
        The unit of the values, if the task names one.
    test
        The test whether the populations are equal. None if the samples have different mechanisms, for which
        no exact test exists, or if a device may have sent more than one report.
    devices, other_devices
        As in `Estimate`: the least numbers of devices behind the reports of the two samples.
    """

    task: str
    task_id: str
    n: int
    other: str
    other_n: int | None
    level: float
    mean: Value | None = None
    direction: Value | None = None
    resultant_length: Value | None = None
    quantiles: Mapping[str, Value] = field(default_factory=dict)
    shares: Mapping[str, Value] = field(default_factory=dict)
    bins: Mapping[str, Value] = field(default_factory=dict)
    cdf: Mapping[str, Value] = field(default_factory=dict)
    test: SmoothTest | None = None
    unit: str | None = None
    devices: int | None = None
    other_devices: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object, without the parts that do not apply."""
        result: dict[str, Any] = {"other": self.other, "n": self.other_n, "level": self.level}
        known = {"unit": self.unit, "devices": self.other_devices}
        result |= {name: each for name, each in known.items() if each is not None}
        return result | parts_to_dict(self)

    def to_document(self) -> dict[str, Any]:
        """Return `to_dict` in a JSON object that also identifies the sample, as a server returns it."""
        head = {name: getattr(self, name) for name in _HEAD}
        if self.devices is not None:
            head["devices"] = self.devices
        return {**head, "reference" if self.other_n is None else "difference": self.to_dict()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Comparison:
        """Return the comparison in a JSON object, from `to_document` or from a server.

        Raises
        ------
        ParameterError
            When the document is not a comparison.
        """

        def read() -> Comparison:
            inner = document["difference" if "difference" in document else "reference"]
            parts: dict[str, Any] = {name: document[name] for name in _HEAD}
            parts |= {"devices": document.get("devices"), "other_devices": inner.get("devices")}
            parts |= parts_from_dict(Comparison, inner)
            test = SmoothTest(**inner["test"]) if "test" in inner else None
            return cls(other=inner["other"], other_n=inner["n"], test=test, **parts)

        return checked_document("a comparison", read)

    def _document(self) -> dict[str, Any]:
        return self.to_document()

    def _form(self) -> Form:
        test = [] if self.test is None else [self.test.words(self.level)]
        return self._table([self._head(), *test], "difference")

    def __str__(self) -> str:
        test = [] if self.test is None else [f"  {self.test.words(self.level)}"]
        return self._text([self._head()], test)

    def _head(self) -> str:
        unit = f" (in {self.unit})" if self.unit else ""
        other, own = (of_devices(each) for each in (self.other_devices, self.devices))
        return f"{self.other}{other} minus {self.task}'s {self.n:,} reports{own}{unit}:"


@one_thread()
@explained
def compare_samples(
    task: Task,
    counts: ArrayLike,
    other: ArrayLike,
    *,
    other_task: Task | None = None,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    target: Target = "population",
    reports_per_device: float | None = None,
    memoised: bool = False,
    epochs: int = 1,
    other_epochs: int | None = None,
    bands: bool = False,
    origin: float | None = None,
) -> Comparison:
    """Return how the population of other reports differs from that of the task's counts.

    Parameters
    ----------
    task, counts
        The task, and its reports per code, shape (K,).
    other
        The other reports per code. No device may be in both samples, since the intervals and the test treat
        the samples as independent.
    other_task
        The task of the other reports, on the same domain and in the same unit; by default the same task. If
        its mechanism, placement or epsilon differs, there is no test.
    level, between, target, reports_per_device, memoised, epochs, bands, origin
        As in `estimate`; without bands and an origin, a circle has no quantiles. The target applies to
        differences of means, directions and resultant lengths. The test treats every report as one from a
        different device. So there is no test for more than one report per device. If a note says that caps
        allow more, the test has this note too.
    other_epochs
        The number of epochs of the other reports; by default `epochs`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, the domains or the units differ, or a sample has fewer than 2
        reports.

    Examples
    --------
    >>> import numpy as np
    >>> from arcwise.domains import Interval
    >>> from arcwise.analysis.simulate import simulate_counts
    >>> from arcwise.tasks import Task
    >>> task = Task("age", Interval(0, 100), epsilon=2.0)
    >>> rng = np.random.default_rng(1)
    >>> before, after = (simulate_counts(task, f"normal:{mean},10", 10_000, rng) for mean in (40, 45))
    >>> result = compare_samples(task, before, after)
    >>> result.mean.contains(5.0), result.test.p
    (True, 0.001)
    """
    checked_task(task)
    check_level(level)
    bands = checked_bool("bands", bands)
    second_task = task if other_task is None else checked_task(other_task, "other_task")
    repeated: dict[str, Any] = {"reports_per_device": reports_per_device, "memoised": memoised}
    both = one, two = _checked((task, counts), (second_task, other), target, **repeated)
    mechanism = task.mechanism
    differences: dict[str, Any] = {}
    if mechanism.kernel.circular:
        differences["direction"] = direction_difference(*both, level=level)
        differences["resultant_length"] = length_difference(*both, level=level)
        if bands and origin is None:
            whole = Survey.of(task, counts, **repeated)  # for the population, with any target
            origin = opposite(direction(whole, level=level), mechanism.domain.length)
    else:
        check_no_origin(origin)
        differences["mean"] = mean_difference(*both, level=level)
    if origin is not None or not mechanism.kernel.circular:
        differences["quantiles"] = quantile_differences(*both, level=level, origin=origin)
    differences["shares"] = {
        share_name(low, high): share_difference(*both, low, high, level=level)
        for low, high in checked_between(between)
    }
    if bands:
        differences["bins"] = bin_differences(*both, level=level)
        if not mechanism.kernel.circular:
            differences["cdf"] = cdf_differences(*both, level=level)
    if same_codes(task, second_task) and reports_per_device in {None, 1.0}:
        differences["test"] = same_population(mechanism, one.counts, two.counts)
    samples = (task, epochs), (second_task, epochs if other_epochs is None else other_epochs)
    differences = _with_caps(differences, unsaid_reports(reports_per_device, *samples))
    devices, other_devices = (devices_of([each]) for each in both)
    return replace(
        no_comparison(task, counts, other, level=level),
        devices=devices,
        other_devices=other_devices,
        **differences,
    )


def _with_caps(differences: Mapping[str, Any], most: float) -> dict[str, Any]:
    """Return a comparison with the note on `most` reports of a device, also in its test."""
    note = caps_note(most)
    test = differences.get("test")
    return noted(differences, note) | {"test": test and replace(test, note=note)}


def no_comparison(task: Task, counts: ArrayLike, other: ArrayLike, *, level: float = 0.95) -> Comparison:
    """Return the comparison of two samples without its numbers, for samples with too few reports."""
    n, other_n = (int(np.asarray(each).sum()) for each in (counts, other))
    return Comparison(task.name, task.id, n, f"{other_n:,} other reports", other_n, level, unit=task.unit)


def _checked(
    first: tuple[Task, ArrayLike], second: tuple[Task, ArrayLike], target: Target, **repeated: Any
) -> tuple[Survey, Survey]:
    """Return two samples as the estimators take them, or raise as `compare_samples` does."""
    task, other_task = first[0], second[0]
    if other_task.domain != task.domain:
        raise ParameterError(f"other_task must be on {task.domain}, got {other_task.domain}")
    if not same_units(task, other_task):
        raise ParameterError(f"other_task must be in {task.unit}, got {other_task.unit}")
    one = Survey.of(*first, target=target, **repeated)
    two = Survey.of(*second, target=target, name="other", **repeated)
    for name, each in (("counts", one), ("other", two)):
        check_enough(name, each)
    return one, two


@one_thread()
@explained
def compare_reference(
    task: Task,
    counts: ArrayLike,
    reference: Population | ArrayLike | str | Any,
    *,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    target: Target = "population",
    reports_per_device: float | None = None,
    memoised: bool = False,
    epochs: int = 1,
    bands: bool = False,
    origin: float | None = None,
) -> Comparison:
    """Return how a given population differs from that of the task's counts.

    Parameters
    ----------
    task, counts, level, between, target, reports_per_device, memoised, epochs, bands, origin
        As in `estimate`. There is no test for more than one report per device. If a note says that caps allow
        more, the test has this note too.
    reference
        The population, as `simulate_counts` takes it: a line such as "normal:40,12", values, or a frozen
        distribution of scipy.stats. On a lattice its values are rounded to the nearest lattice values, as
        devices round theirs. With the rounding "stochastic" they are not rounded here, because devices round
        values in between at random.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    """
    checked_task(task)
    bands = checked_bool("bands", bands)
    domain, mechanism = task.domain, task.mechanism
    truth = Truth(on_lattice(as_population(reference, domain), domain))
    between = checked_between(between)
    survey = Survey.of(task, counts, target=target, reports_per_device=reports_per_device, memoised=memoised)
    result = unwrapped_estimate(task, survey, level=level, between=between, bands=bands, origin=origin)
    low, length = float(domain.from_unit(np.float64(0.0))), domain.length
    differences: dict[str, Any] = {}
    if domain.circular:
        place = float(np.angle(truth.moment)) / (2 * np.pi) * length
        assert result.direction is not None  # noqa: S101 (circles have one)
        assert result.resultant_length is not None  # noqa: S101
        if abs(truth.moment) > NO_DIRECTION:
            differences["direction"] = _around(result.direction, place, length)
        differences["resultant_length"] = _less(result.resultant_length, abs(truth.moment))
        if bands and origin is None:
            origin = opposite(result.direction, length)
        if origin is not None:
            cut = cut_at(mechanism, origin)
            differences["quantiles"] = {
                tau: _further(value, (truth.quantile_above(cut, float(tau)) - cut) % 1.0, cut, length)
                for tau, value in result.quantiles.items()
            }
    else:
        assert result.mean is not None  # noqa: S101 (intervals have one)
        differences["mean"] = _less(result.mean, low + length * truth.mean)
        differences["quantiles"] = {
            tau: _less(value, low + length * truth.quantile(float(tau)))
            for tau, value in result.quantiles.items()
        }
        if result.band is not None:
            differences["cdf"] = _cdf(result.band, truth, low, length)

    def less_part(value: Value, ends: tuple[float, float]) -> Value:
        part = truth.arc if mechanism.kernel.circular else truth.share
        return _less(value, part(*unit_ends(mechanism, *ends)))

    differences["shares"] = {share_name(*ends): less_part(result.share(*ends), ends) for ends in between}
    bins = bin_ends(mechanism) if bands else {}
    differences["bins"] = {name: less_part(result.bins[name], ends) for name, ends in bins.items()}
    if reports_per_device in {None, 1.0}:
        differences["test"] = same_as(
            mechanism, check_counts(counts, mechanism.kernel.codes), node_law(mechanism, truth.population)
        )
    differences = _with_caps(differences, unsaid_reports(reports_per_device, (task, epochs)))
    name = reference if isinstance(reference, str) else "the given population"
    return Comparison(
        task.name,
        task.id,
        result.n,
        name,
        None,
        level,
        unit=task.unit,
        devices=result.devices,
        **differences,
    )


def _less(value: Value, known: float) -> Value:
    """Return a known number minus an estimated one."""
    point, low, high = (
        None if each is None else known - each for each in (value.value, value.high, value.low)
    )
    return Value(point, low, high, f"the given number minus: {value.method}", value.notes)


def _around(value: Value, known: float, period: float) -> Value:
    """Return a known place on a circle minus an estimated place, the shorter way round."""
    apart = _less(value, known)
    if apart.value is None or apart.low is None or apart.high is None:
        return apart
    turns = period * math.floor(apart.value / period + 0.5)
    point, low, high = (each - turns for each in (apart.value, apart.low, apart.high))
    if high - low >= period:  # not determined: the whole circle
        low, high = point - period / 2, point + period / 2
    return Value(point, low, high, apart.method, apart.notes)


def _further(value: Value, known: float, cut: float, period: float) -> Value:
    """Return a known place's distance from a cut, in turns, minus an estimated place's distance from it."""
    if value.value is None:
        return _less(value, period * known)
    shift = value.value - period * ((value.value / period - cut) % 1.0)
    return _less(value, period * known + shift)


def _cdf(band: Band, truth: Truth, low: float, length: float) -> dict[str, Value]:
    """Return a known distribution function minus the band around an estimated one, by place."""
    found = {}
    for at, least, most in zip(band.at, band.low, band.high, strict=True):
        known = truth.below((at - low) / length)
        found[f"{at:.9g}"] = Value(None, known - most, known - least, band.method, band.notes)
    return found
