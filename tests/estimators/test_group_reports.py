"""Groups: intervals for all devices when some were drawn, and conclusions from the numbers of reports."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, kstest

from arcwise.analysis import estimate
from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.groups import devices_behind, drawn_alike, group_reports
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.variance import spread
from arcwise.analysis.simulate import simulate_counts
from arcwise.analysis.timeseries.series import series
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Group, Task
from arcwise.typing import FloatArray, IntArray
from tests.support.known import bounded, there

DELAY = Task("delay", Interval(0, 1), 6.0)
HEADING = Task("heading", Circle(360), 6.0)
VEHICLE = Group("vehicle", [DELAY, HEADING], sample=1)
THREE = Group("three", [DELAY, HEADING, Task("speed", Interval(0, 180), 6.0)], sample=2)


def drawn(values: FloatArray, share: float, seed: int) -> FloatArray:
    """Return the values of the devices that drew the task, each independently with this probability."""
    return values[np.random.default_rng([seed, 7]).random(len(values)) < share]


def reported(task: Task, values: FloatArray, seed: int) -> IntArray:
    return simulate_counts(task, values, len(values), np.random.default_rng(seed), fixed=True)


@pytest.mark.slow
def test_coverage_of_the_devices_of_a_group() -> None:
    """200 surveys of the same 6,000 devices, a quarter of which draw the task each time.

    At 0.95, fewer than 177 or more than 199 have probability 1e-4. Without the correction, the intervals are
    those of the devices that reported. They cover less than 0.75 of the time here, at which 177 or more have
    1e-6.
    """
    values = np.random.default_rng(4).beta(2, 5, 6000)
    covered = uncorrected = variances = 0
    for seed in range(200):
        counts = reported(DELAY, drawn(values, 0.25, seed), seed).astype(np.float64)
        group = Survey(DELAY.mechanism, counts, target="users", sampled=0.25)
        alone = Survey(DELAY.mechanism, counts, target="users", probabilities=group.probabilities)
        covered += mean(group).contains(float(values.mean()))
        uncorrected += mean(alone).contains(float(values.mean()))
        variances += spread(group).variance.contains(float(values.var()))
    assert 177 <= covered <= 199
    assert variances >= 177
    assert uncorrected < 177


@pytest.mark.slow
def test_coverage_of_the_direction_of_a_group() -> None:
    """200 surveys, as above."""
    values = np.degrees(np.random.default_rng(4).vonmises(1.0, 1.5, 6000)) % 360
    moment = complex(np.exp(1j * np.radians(values)).mean())
    angle = math.degrees(math.atan2(moment.imag, moment.real))
    directions = lengths = uncorrected = 0
    for seed in range(200):
        counts = reported(HEADING, drawn(values, 0.25, seed), seed).astype(np.float64)
        mechanism: Any = HEADING.mechanism
        group = Survey(mechanism, counts, target="users", sampled=0.25)
        alone = Survey(mechanism, counts, target="users", probabilities=group.probabilities)
        directions += direction(group).contains(angle, period=360)
        lengths += resultant_length(group).contains(abs(moment))
        uncorrected += direction(alone).contains(angle, period=360)
    assert 177 <= directions <= 199
    assert 177 <= lengths <= 199
    assert uncorrected < 177


@pytest.mark.slow
@pytest.mark.parametrize("task", [DELAY, HEADING], ids=lambda task: task.name)
def test_the_width_lies_between_these_users_and_the_population(task: Task) -> None:
    values = np.random.default_rng(1).uniform(0.2, 0.5, 5000) * task.domain.length
    counts = reported(task, values, 2)

    def width(**options: Any) -> float:
        found = estimate(task, counts, **options)
        value = bounded(found.mean or found.direction)
        return value.high - value.low

    population = width()
    assert width(sampled=0.5) == population
    ordered = [width(target="users", sampled=share) for share in (1.0, 0.6, 0.1, 1e-9)]
    assert ordered[0] == width(target="users")
    assert ordered == sorted(ordered)
    assert ordered[0] < 0.9 * population
    assert ordered[-1] == pytest.approx(population, rel=1e-6)
    if task is DELAY:  # on each side the square is the mixture itself
        at: list[list[float]] = []
        for options in ({"sampled": 1.0}, {"sampled": 0.6}, {"target": "population"}):
            mean = there(estimate(task, counts, **{"target": "users", **options}).mean)  # type: ignore[arg-type]
            assert None not in {mean.value, mean.low, mean.high}
            at.append([mean.value - mean.low, mean.high - mean.value])  # type: ignore[operator]
        users, mixed, everybody = np.array(at) ** 2
        assert mixed == pytest.approx(0.6 * users + 0.4 * everybody, rel=1e-9)


@pytest.mark.slow
def test_the_result_says_that_devices_were_drawn() -> None:
    counts = reported(DELAY, np.linspace(0, 1, 500), 1)
    found = estimate(DELAY, counts, target="users", sampled=0.5)
    assert "all devices of the group, of which 0.5 drew this task, not the population" in found.target
    assert found.mean is not None
    assert "also those that drew other tasks" in found.mean.note
    assert "the sampling of devices" in found.mean.method
    assert "group" not in estimate(DELAY, counts, sampled=0.5).target
    over_time = series(DELAY, {1: counts, 2: counts}, target="users", sampled=0.5)
    assert "of which 0.5 drew this task" in over_time.target
    point = there(over_time.points[0].mean)
    assert (point.low, point.high) == (found.mean.low, found.mean.high)


@pytest.mark.parametrize("bad", [0, -0.5, 1.1, True, "half", math.nan, None])
def test_bad_shares_are_refused(bad: Any) -> None:
    counts = reported(DELAY, np.linspace(0, 1, 50), 1)
    for estimator in (
        lambda: estimate(DELAY, counts, sampled=bad),
        lambda: series(DELAY, {1: counts}, sampled=bad),
    ):
        with pytest.raises(ParameterError, match="sampled must be a share above 0 and up to 1, got"):
            estimator()


# --- numbers of devices -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.06, 1 / 3, 0.5, 0.9])
@pytest.mark.parametrize("reports", [0, 1, 7, 400])
def test_the_number_of_devices_inverts_the_binomial_law(reports: int, share: float) -> None:
    found = bounded(devices_behind(reports, share, level=0.9))
    low, high = int(found.low), int(found.high)
    assert found.value == reports / share
    inside = [
        devices
        for devices in range(reports, high + 50)
        if binom.cdf(reports, devices, share) > 0.05 and binom.sf(reports - 1, devices, share) > 0.05
    ]
    assert (low, high) == (inside[0], inside[-1])


def test_the_number_of_devices_covers() -> None:
    """Exactly: over all possible numbers of drawn devices out of 250, not over a sample of them."""
    reports = np.arange(251)
    for share in (0.2, 0.5):
        intervals = [devices_behind(int(number), share) for number in reports]
        covered = [bool(interval.contains(250.0)) for interval in intervals]
        assert 0.95 <= float(binom.pmf(reports, 250, share) @ covered) < 0.99


def test_all_devices_report_without_sampling() -> None:
    found = devices_behind(12, 1.0)
    assert (found.low, found.value, found.high) == (12.0, 12.0, 12.0)


def test_large_numbers_of_devices() -> None:
    found = bounded(devices_behind(10**12, 0.25))
    assert 1.95 < (found.high - 4e12) / math.sqrt(12e12) < 1.97
    assert 1.95 < (4e12 - found.low) / math.sqrt(12e12) < 1.97


# --- whether tasks were drawn equally often ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("group", [VEHICLE, THREE], ids=lambda group: group.name)
def test_p_values_are_uniform_where_tasks_are_drawn_alike(group: Group) -> None:
    """400 groups of 500 real choices: Kolmogorov's statistic has a p below 1e-3 once in a thousand."""
    source = InsecureSeededRandomness(3)
    found = []
    for _ in range(400):
        chosen = [task.name for _ in range(500) for task in group.choose(source)]
        p_value = there(drawn_alike([chosen.count(task.name) for task in group.tasks], group.sample or 0))
        found.append(p_value)
    assert kstest(found, "uniform").pvalue > 1e-3


def test_tasks_that_miss_values_are_told() -> None:
    alike = group_reports(VEHICLE, {"delay": 5020, "heading": 4980})
    assert alike.note == "the numbers agree with tasks drawn equally often (p = 0.69)"
    missing = group_reports(VEHICLE, {"delay": 5020, "heading": 4000})
    assert there(missing.p_value) < 1e-20
    assert "the tasks differ by more than random drawing explains" in str(missing)
    assert "values are missing in some devices" in missing.note
    few = group_reports(VEHICLE, {"delay": 1, "heading": 2})
    assert few.p_value is None
    assert "too few reports" in few.note
    whole = Group("whole", [DELAY, HEADING])
    assert group_reports(whole, {"delay": 7, "heading": 7}).note == "equal numbers of reports"
    assert "the tasks differ: values are missing" in group_reports(whole, {"delay": 7, "heading": 6}).note


def test_the_table_shows_all_tasks() -> None:
    found = group_reports(THREE, {"delay": 2000, "heading": 2010, "speed": 1990})
    assert repr(found).startswith("<GroupReports of 'three': delay ")
    lines = str(found).splitlines()
    assert lines[0] == "group three: a device reports 2 of 3 tasks in a round"
    assert lines[1].split() == ["delay", "2,000", "reports,", "3,000", "[2,925,", "3,077]", "devices"]
    assert [line.split()[0] for line in lines[1:4]] == ["delay", "heading", "speed"]
    document = found.to_dict()
    assert [row["reports"] for row in document["tasks"]] == [2000, 2010, 1990]
    assert document["group_id"] == THREE.id


def test_bad_numbers_of_reports_are_refused() -> None:
    bad: Any
    for bad in ({"delay": 1}, {"delay": 1, "heading": -1}, {"delay": 1, "heading": 1.0}):
        with pytest.raises(ParameterError, match="reports must hold a non-negative integer for every task"):
            group_reports(VEHICLE, bad)
    with pytest.raises(ParameterError, match=r"level must be from 0\.5 to 0\.9999, got 1"):
        group_reports(VEHICLE, {"delay": 1, "heading": 1}, level=1)
