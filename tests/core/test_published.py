"""Published mechanisms as integer kernels, against the closed forms of the continuous ones.

The closed forms are compared with reference numbers in `test_published_forms`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import (
    Duchi,
    Hybrid,
    OptimalPiecewise,
    Piecewise,
    PiecewiseOpt,
    PiecewiseSub,
    PiecewiseTransformation,
    Purkayastha,
    RandomizedResponse,
    SquareWave,
    ThreeOutputs,
    TruncatedPiecewise,
    UnbiasedOptimalPiecewise,
    VonMises,
    circle_expected_error,
)
from arcwise.mechanisms.closed_forms import directional, finite, piecewise
from arcwise.mechanisms.closed_forms.piecewise import square_wave_expected_error
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.closed_forms import square_wave_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.mechanisms import Mechanism

UNIT = Interval(0, 1)
TURN = 2 * math.pi


def close(expected: Any, rel: float = 1e-11) -> Any:
    return pytest.approx(expected, rel=rel)


def worst_squared_error(mechanism: Mechanism) -> float:
    """Return the largest squared error over nodes, the middles between them, and 1,001 inputs."""
    between = np.linspace(0, 1, 2 * mechanism.kernel.nodes - 1)
    return float(mechanism.expected_errors(np.union1d(between, np.linspace(0, 1, 1001)), 2.0).max())


KERNELS: dict[str, tuple[Callable[[float], Mechanism], Callable[[float], float], float]] = {
    "piecewise": (lambda e: Piecewise(UNIT, e), piecewise.piecewise_worst_variance, 0.01),
    "piecewise-sub": (
        lambda e: PiecewiseSub(UNIT, e),
        lambda e: piecewise.piecewise_worst_variance(e, s=piecewise.piecewise_parameter(e, "pm-sub")),
        0.01,
    ),
    "square-wave": (
        lambda e: SquareWave(UNIT, e),
        lambda e: float(square_wave_expected_error(1.0, e, 2.0)),
        0.01,
    ),
    "transformation": (
        lambda e: PiecewiseTransformation(UNIT, e),
        piecewise.transformation_worst_variance,
        0.01,
    ),
    "margins": (
        lambda e: PiecewiseTransformation(
            UNIT, e, s=3.0, half_range=1.3 * piecewise.least_half_range(e, 3.0)
        ),
        lambda e: piecewise.transformation_worst_variance(
            e, s=3.0, half_range=1.3 * piecewise.least_half_range(e, 3.0)
        ),
        0.01,
    ),
    "theorem 5": (
        lambda e: UnbiasedOptimalPiecewise(UNIT, e),
        piecewise.unbiased_optimal_worst_variance,
        0.013,
    ),
    "hybrid": (lambda e: Hybrid(UNIT, e), finite.hybrid_worst_variance, 0.01),
    # No grid error: these are finite.
    "duchi": (lambda e: Duchi(UNIT, e), finite.duchi_worst_variance, 1e-9),
    "three-outputs": (lambda e: ThreeOutputs(UNIT, e), finite.three_outputs_worst_variance, 1e-5),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    "epsilon", mostly_slow([0.01, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], every=3)
)
def test_default_grids_keep_the_worst_case(name: str, epsilon: float) -> None:
    make, worst, bound = KERNELS[name]
    mechanism = make(epsilon)
    assert abs(worst_squared_error(mechanism) / worst(epsilon) - 1) < bound
    assert len(Task("x", UNIT, epsilon, mechanism=mechanism).to_bytes()) < 200_000
    mechanism.certificate()


@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow), 6.0])
@pytest.mark.parametrize("cls", [Piecewise, PiecewiseOpt, SquareWave])
def test_the_grid_error_falls_with_the_nodes(cls: Any, epsilon: float) -> None:
    """A window is off by half a code, 1/(2W), and the variance by four times that; rounding adds its own."""
    worst = {
        Piecewise: piecewise.piecewise_worst_variance,
        PiecewiseOpt: piecewise.transformation_worst_variance,
        SquareWave: lambda e: float(square_wave_expected_error(1.0, e, 2.0)),
    }[cls](epsilon)
    for nodes in (64, 512, 4096) if epsilon == 2.0 else (64, 512):
        mechanism = cls(UNIT, epsilon, nodes=nodes)
        assert (
            abs(worst_squared_error(mechanism) / worst - 1)
            < 2 / mechanism.kernel.window + 30 / nodes**2 / worst
        )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("x", [0.0, 0.03, 0.25, 0.5, 0.9, 1.0])
def test_finite_mechanisms_have_no_grid_error(epsilon: float, x: float) -> None:
    assert Duchi(UNIT, epsilon).variance(x) == close(float(finite.duchi_variance(x, epsilon)), 1e-9)
    three = float(finite.three_outputs_variance(x, epsilon))
    assert ThreeOutputs(UNIT, epsilon).variance(x) == close(three, 1e-9)
    if epsilon < finite.HYBRID_FROM:
        assert Hybrid(UNIT, epsilon).variance(x) == close(float(finite.duchi_variance(x, epsilon)), 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_piecewise_mechanism_is_the_optimal_window_inset(epsilon: float) -> None:
    ours, optimal = Piecewise(UNIT, epsilon, nodes=128), OptimalPiecewise(UNIT, epsilon, nodes=128)
    assert ours.kernel == optimal.kernel
    assert ours.values.tolist() == optimal.values.tolist()


def test_the_default_transformation_is_piecewise_opt() -> None:
    table = PiecewiseTransformation(UNIT, 2.0, nodes=60)
    window = PiecewiseOpt(UNIT, 2.0, nodes=60)
    assert table.kernel.matrix() == close(window.kernel.matrix(), 1e-9)
    assert table.values == close(window.values, 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_square_wave_is_biased_as_its_closed_form_says(epsilon: float) -> None:
    mechanism = SquareWave(UNIT, epsilon)
    assert not mechanism.unbiased
    for x in (0.0, 0.2, 0.5, 1.0):
        assert mechanism.mean(x) == pytest.approx(float(square_wave_mean(x, epsilon)), abs=2e-3)
        assert mechanism.expected_error(x) == close(float(square_wave_expected_error(x, epsilon)), 5e-3)
    # What `unbiased_units` gives is unbiased at every node.
    places = np.arange(mechanism.kernel.nodes) / (mechanism.kernel.nodes - 1)
    assert mechanism.kernel.matrix() @ mechanism.unbiased_units() == pytest.approx(places, abs=1e-12)


def test_three_outputs_are_two_where_two_are_best() -> None:
    assert ThreeOutputs(UNIT, 0.69).kernel.codes == 2
    assert ThreeOutputs(UNIT, 0.7).kernel.codes == 3
    # Just above log 2 the best a is far below what an integer weight of 2**31 stands for.
    assert ThreeOutputs(UNIT, math.nextafter(math.log(2), 1)).kernel.codes == 2


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize(
    ("cls", "form"), [(VonMises, directional.von_mises), (Purkayastha, directional.purkayastha)]
)
def test_directional_kernels_converge_to_their_densities(cls: Any, form: Any, epsilon: float) -> None:
    expected = form(epsilon)
    for nodes, bound in ((128, 3e-3), (1024, 1e-4)):
        mechanism = cls(Circle(TURN), epsilon, nodes=nodes)
        assert mechanism.certificate().spent_epsilon == close(epsilon, 1e-9)
        # At a node: between two nodes the rounding is part of the error.
        assert mechanism.expected_error(0.0) == close(expected.abs_angle, bound)
        assert mechanism.expected_error(0.0, 2.0) == close(expected.sq_angle, bound)
        assert mechanism.attenuation() == close(expected.rho, bound)
        assert mechanism.expected_error(0.0) > circle_expected_error(epsilon, period=TURN) * (1 - 1e-6)


@pytest.mark.parametrize("nodes", [2, 3, 7, 128, 129])
@pytest.mark.parametrize("cls", [VonMises, Purkayastha])
def test_directional_rows_spend_their_epsilon_on_every_grid(cls: Any, nodes: int) -> None:
    mechanism = cls(Circle(360), 1.5, nodes=nodes)
    assert mechanism.certificate().spent_epsilon == close(1.5, 1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PiecewiseTransformation(UNIT, 1.0, half_range=4.0), r"half_range must be at least 4\.14"),
        (lambda: PiecewiseTransformation(UNIT, 1.0, s=-1.0), r"s must be positive and finite, got -1\.0"),
        (lambda: PiecewiseTransformation(UNIT, 1.0, nodes=1025), "nodes must be an integer from 2 to 1024"),
        (lambda: Hybrid(UNIT, 0.1, nodes=1), "nodes must be an integer from 2 to 1024, got 1"),
        (lambda: RandomizedResponse(UNIT, 1.0, nodes=1), "nodes must be an integer from 2 to 32768, got 1"),
        (lambda: VonMises(Circle(1), 1.0, nodes=1), "nodes must be an integer from 2 to 65536, got 1"),
    ],
)
def test_bad_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.5, 2.5, 4.0])
def test_truncated_piecewise_has_the_error_of_the_continuous_mechanism(epsilon: float) -> None:
    """By sums over PM's density at many inputs, its outputs moved to the nearer end of [0, 1]."""
    s = piecewise.piecewise_parameter(epsilon, "pm")
    length = piecewise.least_half_range(epsilon, s)
    low, window = (1.0 - length) / 2.0, length / (s + 1.0)
    y = low + length * (np.arange(40_000) + 0.5) / 40_000

    def error(x: float) -> float:
        left = low + (length - window) * x
        density = np.where((left <= y) & (y < left + window), math.exp(epsilon), 1.0)
        return float(density @ abs(np.clip(y, 0.0, 1.0) - x) / density.sum())

    mechanism = TruncatedPiecewise(UNIT, epsilon)
    inputs = np.linspace(0.0, 1.0, 257)
    worst = float(mechanism.expected_errors(inputs, 1.0).max())
    assert worst == pytest.approx(max(error(x) for x in inputs.tolist()), rel=0.02)
    clamped = OptimalPiecewise(UNIT, epsilon, placement="clamp").expected_errors(np.zeros(1), 1.0)
    assert (worst < float(clamped.max())) is (epsilon >= 1.4)
    assert mechanism.code_units()[[0, -1]].tolist() == [0.0, 1.0]
    assert not mechanism.unbiased
