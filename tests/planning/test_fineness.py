"""The error that a grid adds to the closed form at large epsilon, compared with separate sums, row by row."""

import math
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from scipy.optimize import brentq

from arcwise.analysis.planning import plan
from arcwise.analysis.planning.fineness import fineness, worst_unit_variance
from arcwise.domains import Circle, Interval
from arcwise.errors import CoarseGridWarning
from arcwise.mechanisms import (
    Duchi,
    Mechanism,
    OptimalCircular,
    OptimalPiecewise,
    Piecewise,
    PiecewiseOpt,
    PiecewiseTransformation,
    Purkayastha,
    SquareWave,
    VonMises,
)
from arcwise.mechanisms.moments import TOO_COARSE
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.commands import bad, run
from tests.support.known import there

UNIT, TURN = Interval(0, 1), Circle(1)


def clamped(epsilon: float, **given: object) -> Mechanism:
    return OptimalPiecewise(UNIT, epsilon, placement="clamp", **given)  # type: ignore[arg-type]


def least_error(epsilon: float, power: float, *, circular: bool) -> float:
    """Return the least worst error of three pieces, by search over the level outside the window."""
    growth = math.expm1(epsilon)

    k = power + 1.0

    def error(q: float) -> float:
        half = (1 - q) / (2 * q * growth)
        if circular:
            return 2 * q * (math.pow(0.5, k) + growth * math.pow(half, k)) / k
        return q * (1 + growth * math.pow(2 * half, k)) / k

    low, high = -40.0, 0.0  # of log q; the error has one minimum
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(math.exp(a)) < error(math.exp(b)) else (a, high)
    return error(math.exp(low))


def row_error(mechanism: Mechanism, unit: float, power: float) -> float:
    """Return ``E|y - x|^power`` from the integer rows, one code after another."""
    kernel, position = mechanism.kernel, mechanism.position(unit)
    below, share = int(position), position - int(position)
    total = 0.0
    for node, part in ((below, 1.0 - share), ((below + 1) % kernel.nodes, share)):
        if part:
            for code, weight in enumerate(kernel.row(node)):
                away = abs(float(mechanism.code_units()[code]) - unit)
                away = min(away % 1.0, 1.0 - away % 1.0) if mechanism.domain.circular else away
                total += part * weight / 2**64 * away**power
    return total


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize(("made", "steps"), [(OptimalCircular, 1), (clamped, 41)], ids=["circle", "clamp"])
def test_the_worst_error_of_a_coarse_grid_and_of_the_closed_form(
    made: object, steps: int, power: float
) -> None:
    """Takes every quarter between the nodes of a small grid, and searches all three-piece densities."""
    circular = made is OptimalCircular
    domain = {"domain": TURN} if circular else {}
    mechanism = made(epsilon=9.7, nodes=41, power=power, **domain)  # type: ignore[operator]
    found = there(fineness(mechanism, power=power))  # on a grid this coarse, both powers have the same window
    assert found.closed == pytest.approx(least_error(9.7, power, circular=circular), rel=1e-9)
    units = [k / (4 * 41) for k in range(4 * steps + 1)]
    assert found.grid == pytest.approx(max(row_error(mechanism, x, power) for x in units), rel=1e-9)


def test_the_worst_variance_of_a_coarse_grid() -> None:
    """Compared with the decoded rows of neighbouring nodes, mixed in hundredths."""
    mechanism = PiecewiseOpt(UNIT, 11.3, nodes=24)
    values, kernel = mechanism.code_units(), mechanism.kernel

    def moment(node: int, order: int) -> float:
        return sum(w / 2**64 * float(v) ** order for w, v in zip(kernel.row(node), values, strict=True))

    first, second = ([moment(node, k) for node in range(24)] for k in (1, 2))
    worst = max(
        (1 - t) * second[s] + t * second[s + 1] - ((1 - t) * first[s] + t * first[s + 1]) ** 2
        for s in range(23)
        for t in [k / 100 for k in range(101)]
    )
    assert worst_unit_variance(mechanism) == pytest.approx(worst, rel=1e-4)
    found = there(fineness(mechanism))
    assert found.grid == pytest.approx(worst, rel=1e-4)
    # Zhao et al. print the variance for inputs t in [-1, 1]; at t = 1, and a quarter of it for [0, 1].
    e = math.exp(11.3)
    s = brentq(lambda s: s**4 + 2 * e * s**3 - 2 * e * s - e**2, 1.0, 1e4, xtol=1e-12)
    printed = (s + 1) / (e - 1) + (s + e) * ((s + 1) ** 3 + e - 1) / (3 * s**2 * (e - 1) ** 2)
    assert found.closed == pytest.approx(printed / 4, rel=1e-9)


@pytest.mark.parametrize("epsilon", [9.0, 12.0, 16.0])
@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("circular", [True, False], ids=["direction", "value"])
def test_a_task_made_in_python_warns_of_a_coarse_grid(circular: bool, power: float, epsilon: float) -> None:
    """The factor over the closed form's error is that of the rows; 32 nodes are too few from 9 on."""
    domain = TURN if circular else UNIT
    goal = "direction" if circular else "value"
    mechanism = (
        OptimalCircular(TURN, epsilon, nodes=32, power=power)
        if circular
        else clamped(epsilon, nodes=32, power=power)
    )
    with pytest.warns(CoarseGridWarning, match="the grid of 32 nodes is coarse") as caught:
        task = Task("coarse", domain, epsilon, goal=goal, mechanism=mechanism)
    assert caught[0].filename == __file__
    places = [k / 8 / 32 for k in range(9)]
    said = float(str(caught[0].message).partition("error is ")[2].partition(" times")[0])
    ratios = [
        max(row_error(mechanism, x, each) for x in places) / least_error(epsilon, each, circular=circular)
        for each in (1.0, 2.0)
    ]
    assert any(said == pytest.approx(ratio, rel=5e-3) for ratio in ratios)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoarseGridWarning)
        assert Task.from_bytes(task.to_bytes()) == task  # on a device
        Task("fine", domain, epsilon, goal=goal)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_tasks_of_usual_nodes_do_not_warn_up_to_epsilon_6(power: float, epsilon: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoarseGridWarning)
        for made in (
            OptimalCircular(TURN, epsilon, nodes=128, power=power),
            clamped(epsilon, nodes=128, power=power),
            SquareWave(UNIT, epsilon),
        ):
            task = Task("usual", made.domain, epsilon, mechanism=made)
            assert (fineness(made, power=power) or fineness(made)).warning() == ""  # type: ignore[union-attr]
            assert task.mechanism is made


@pytest.mark.parametrize(
    ("circular", "epsilon", "ratio"),
    [(True, 9, 1.41), (True, 12, 3.3), (True, 16, 23), (False, 12, 1.74), (False, 16, 11.7)],
)
def test_128_nodes_warn_and_the_nodes_they_name_are_enough(
    circular: bool, epsilon: float, ratio: float
) -> None:
    def made(nodes: int | None) -> Mechanism:
        if circular:
            return OptimalCircular(TURN, epsilon, nodes=nodes)
        return clamped(epsilon, nodes=nodes)

    found = there(fineness(made(128)))
    assert found.ratio == pytest.approx(ratio, rel=0.015)
    assert f"--nodes {there(found.enough)}" in found.warning()
    finer = there(fineness(made(there(found.enough))))
    assert 1 <= finer.ratio + 1e-4 < TOO_COARSE + 1e-4
    default = there(fineness(made(None)))
    assert default.warning() == ""


@pytest.mark.parametrize("goal", ["value", "direction"])
@pytest.mark.parametrize("epsilon", mostly_slow([k / 4 for k in range(66, 1, -1)], every=4))
def test_the_default_grid_is_fine_up_to_16_5(goal: str, epsilon: float) -> None:
    mechanism = Task("t", TURN if goal == "direction" else UNIT, epsilon, goal=goal).mechanism
    closed = least_error(epsilon, 1.0, circular=goal == "direction")
    kernel = mechanism.kernel
    if kernel.codes <= 1024:
        found = max(row_error(mechanism, x / (4 * kernel.nodes), 1.0) for x in range(3))
        assert found <= TOO_COARSE * closed
    grid = there(fineness(mechanism))
    assert grid.ratio <= TOO_COARSE
    assert grid.closed == pytest.approx(closed, rel=1e-6)
    if epsilon <= 6.2:
        assert kernel.nodes == 128
    assert kernel.codes <= 16_384


def test_beyond_that_the_grid_of_a_value_is_as_fine_as_it_may_be_and_a_warning_says_so() -> None:
    grids = {epsilon: fineness(clamped(epsilon)) for epsilon in (17.3, 18.6, 20)}
    assert {epsilon: bool(grid and grid.warning()) for epsilon, grid in grids.items()} == {
        17.3: False,
        18.6: True,
        20: True,
    }
    assert all(grid and grid.ratio < 1.085 for grid in grids.values())


@pytest.mark.parametrize("epsilon", [*mostly_slow([k / 10 for k in range(166, 201)], every=8), 19.4, 19.5])
def test_a_direction_loses_little_up_to_the_largest_epsilon(epsilon: float) -> None:
    grid = there(fineness(OptimalCircular(TURN, epsilon)))
    assert grid.closed == pytest.approx(least_error(epsilon, 1.0, circular=True), rel=1e-6)
    assert grid.ratio <= (TOO_COARSE if epsilon <= 19.4 else 1.0625)
    assert bool(grid.warning()) is (epsilon > 19.4)


def test_mechanisms_without_a_closed_form_or_with_values_of_their_own_have_none() -> None:
    assert fineness(Duchi(UNIT, 9.0)) is None
    assert fineness(OptimalCircular(Circle(24, step=1), 12.0)) is None


@pytest.mark.parametrize("mechanism_type", [Piecewise, PiecewiseTransformation, SquareWave])
@pytest.mark.parametrize("epsilon", [0.7, 3.3, 6.6])
def test_the_fitted_grids_are_fine(mechanism_type: type, epsilon: float) -> None:
    found = there(fineness(mechanism_type(UNIT, epsilon)))
    assert found.ratio == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("mechanism_type", [VonMises, Purkayastha])
def test_smooth_densities_on_a_circle_need_few_nodes(mechanism_type: type) -> None:
    found = there(fineness(mechanism_type(TURN, 15.2)))
    coarse = there(fineness(mechanism_type(TURN, 15.2, nodes=12)))
    assert found.ratio == pytest.approx(1.0, abs=0.01)
    assert coarse.warning()


def test_the_kernel_of_a_fine_grid_keeps_epsilon_exactly() -> None:
    for mechanism in (OptimalCircular(TURN, 13.37), clamped(13.37, power=2.0)):
        kernel = mechanism.kernel
        rows = [kernel.row(0), kernel.row(kernel.nodes // 2), kernel.row(kernel.nodes - 1)]
        assert all(sum(row) == 2**64 for row in rows)
        most = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
        assert most <= Fraction(Decimal.from_float(13.37).exp())


def test_a_new_task_has_the_nodes_and_the_power_that_were_asked_for(tmp_path: Path) -> None:
    base = ["task", "new", "level", "--domain", "0:1", "--epsilon", "12", "--goal", "value", "--force"]
    path = tmp_path / "level.json"

    def made(*more: str) -> tuple[Task, str]:
        result = run(*base, *more, "-o", str(path))
        assert result.exit_code == 0, result.output
        return Task.load(path), result.output

    task, words = made("--nodes", "128")
    assert task.mechanism.kernel == clamped(12.0, nodes=128).kernel
    assert "1.74 times" in words
    assert "1.74 times" in run("task", "show", str(path)).output
    task, words = made("--power", "2")
    assert task.mechanism.kernel == clamped(12.0, power=2.0).kernel
    assert "warning" not in words
    task, words = made("--mechanism", "square-wave", "--nodes", "50")
    assert task.mechanism.kernel.nodes == 50
    task, _ = made()
    assert task.mechanism.kernel == clamped(12.0).kernel


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--mechanism", "duchi", "--nodes", "5"], "--mechanism duchi has no nodes"),
        (["--mechanism", "square-wave", "--power", "2"], "--mechanism square-wave has no power"),
        (["--goal", "mean", "--nodes", "20"], "--nodes and --power are not for --goal mean"),
        (["--power", "2"], 'power must be left out for the goal "distribution"'),
        (["--goal", "value", "--nodes", "1"], "nodes must be"),
        (["--goal", "value", "--power", "0.5"], "power must be"),
    ],
)
def test_nodes_and_powers_that_have_no_meaning_are_refused(given: list[str], said: str) -> None:
    assert said in bad("task", "new", "x", "--domain", "0:1", "--epsilon", "2", "--dry-run", *given)


def test_a_plan_says_which_grids_are_coarse() -> None:
    fine = plan(Circle(360), epsilon=14.5, error=1.0, compare=False)
    assert not fine.notes
    coarse = plan(Circle(360), epsilon=19.5, error=1.0, compare=False)
    assert any("coarse" in note for note in coarse.notes)
