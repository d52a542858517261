"""Published mechanisms: closed forms compared with other numbers, and kernels with the closed forms."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from arcwise.mechanisms.closed_forms import directional, finite, piecewise, published
from arcwise.mechanisms.closed_forms.piecewise import square_wave_expected_error, square_wave_half_window
from arcwise.mechanisms.closed_forms.published import mixture_at
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.closed_forms import (
    bounded_laplace_error,
    clamped_laplace_error,
    square_wave_mean,
)
from tests.support.strategies import epsilons

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
    # `unbiased_units` is unbiased at every node.
    places = np.arange(mechanism.kernel.nodes) / (mechanism.kernel.nodes - 1)
    assert mechanism.kernel.matrix() @ mechanism.unbiased_units() == pytest.approx(places, abs=1e-12)


def test_three_outputs_are_two_where_two_are_best() -> None:
    assert ThreeOutputs(UNIT, 0.69).kernel.codes == 2
    assert ThreeOutputs(UNIT, 0.7).kernel.codes == 3
    # Just above log 2 the best a is far below what an integer weight of 2**31 can represent.
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
        (lambda: piecewise.piecewise_variance(1.5, 1.0), r"x must be from 0 to 1, got 1\.5"),
        (lambda: piecewise.piecewise_variance([0.5, math.nan], 1.0), "x must be from 0 to 1, got nan"),
        (lambda: finite.duchi_variance(0.5, 0.0), r"epsilon must be from 0\.01 to 20, got 0\.0"),
        (lambda: POWER(1.0, "pm-best"), "member must be one of pm, pm-sub, pm-opt; got 'pm-best'"),
        (lambda: piecewise.least_half_range(1.0, 0.0), r"s must be positive and finite, got 0\.0"),
        (
            lambda: piecewise.transformation_variance(0.5, 1.0, half_range=1.0),
            r"half_range must be at least 4\.",
        ),
        (lambda: finite.three_outputs_variance(0.5, 1.0, a=0.9), r"a must be from 0 to 0\.57.*, got 0\.9"),
        (lambda: finite.randomized_response_variance(0.5, 1.0, 1), "nodes must be an integer of at least 2"),
    ],
)
def test_bad_arguments_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.5, 2.5, 4.0])
def test_truncated_piecewise_has_the_error_of_the_continuous_mechanism(epsilon: float) -> None:
    """Sums over PM's density at many inputs, with its outputs moved to the nearer end of [0, 1]."""
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


REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_published.json").read_text())
UNBIASED = REFERENCE["unbiased_on_unit_interval"]
EPSILONS = sorted(UNBIASED, key=float)
X = np.array(REFERENCE["x_grid"])
INSIDE = st.floats(0.0, 1.0)
POWER: Any = piecewise.piecewise_parameter


def of_member(member: str) -> Callable[[Any, float], Any]:
    return lambda x, epsilon: piecewise.piecewise_variance(x, epsilon, s=POWER(epsilon, member))


def of_theorem_5(x: Any, epsilon: float) -> Any:
    s, half_range = piecewise.unbiased_optimal_range(epsilon)
    return piecewise.transformation_variance(x, epsilon, s=s, half_range=half_range)


VARIANCES: dict[str, tuple[Callable[[Any, float], Any], Callable[[float], float]]] = {
    "duchi": (finite.duchi_variance, finite.duchi_worst_variance),
    "pm": (piecewise.piecewise_variance, piecewise.piecewise_worst_variance),
    "pm_sub": (of_member("pm-sub"), lambda e: piecewise.piecewise_worst_variance(e, s=POWER(e, "pm-sub"))),
    "pm_opt": (of_member("pm-opt"), piecewise.transformation_worst_variance),
    "hm": (finite.hybrid_variance, finite.hybrid_worst_variance),
    "three_outputs": (finite.three_outputs_variance, finite.three_outputs_worst_variance),
    "ugpm_theorem5": (of_theorem_5, piecewise.unbiased_optimal_worst_variance),
}


# --- closed forms against the reference ----------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_variances_agree_with_the_reference(epsilon: str, name: str) -> None:
    at, worst = VARIANCES[name]
    expected = UNBIASED[epsilon]["var_at_x"][name]
    assert len(expected) == len(X) == 21
    assert at(X, float(epsilon)).tolist() == close(expected)
    assert [float(at(x, float(epsilon))) for x in X.tolist()] == close(expected)
    assert worst(float(epsilon)) == close(UNBIASED[epsilon]["worst_var"][name])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_parameters_agree_with_the_reference(epsilon: str) -> None:
    entry, value = UNBIASED[epsilon], float(epsilon)
    assert POWER(value) == close(entry["pm"]["t"])
    assert piecewise.least_half_range(value, POWER(value)) == close(entry["pm"]["C"])
    assert POWER(value, "pm-opt") == close(entry["pm_opt_t"], 1e-7)
    assert piecewise.least_half_range(value, POWER(value, "pm-opt")) == close(entry["pm_opt_A"], 1e-7)
    assert finite.hybrid_share(value) == close(entry["hm_alpha"], 1e-7)
    a, _, k = finite.three_outputs_levels(value)
    assert a == pytest.approx(entry["three_a"], rel=1e-7, abs=1e-9)
    assert k == close(entry["three_K"], 1e-7)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_square_wave_agrees_with_the_reference(epsilon: str) -> None:
    entry, value = REFERENCE["square_wave"][epsilon], float(epsilon)
    assert square_wave_half_window(value) == close(entry["b"])
    assert square_wave_mean(X, value).tolist() == close(entry["mean_slope"] * X + entry["mean_intercept"])
    assert square_wave_expected_error(X, value).tolist() == close(entry["E_abs_err"])
    assert square_wave_expected_error(X, value, 2.0).tolist() == close(entry["E_sq_err"])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_agrees_with_the_reference(epsilon: str) -> None:
    entry, value = REFERENCE["laplace_on_unit_interval"][epsilon], float(epsilon)
    assert clamped_laplace_error(X, value).tolist() == close(entry["clamped_E_abs_err"])
    assert bounded_laplace_error(X, value).tolist() == close(entry["renorm_E_abs_err"])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_directional_agrees_with_the_reference(epsilon: str) -> None:
    entry, value = REFERENCE["directional"][epsilon], float(epsilon)
    for form, name in ((directional.von_mises, "vmf"), (directional.purkayastha, "purkayastha")):
        fields = ("kappa", "normaliser", "E_abs_angle", "E_sq_angle", "rho1")
        assert list(form(value)) == close([entry[name][k] for k in fields])
    assert circle_expected_error(value, period=TURN) == close(entry["opm_circular_L1"])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_best_mixture_agrees_with_the_reference(epsilon: str) -> None:
    """The reference takes 801 inputs, so it is below the true worst case by up to 1e-6."""
    expected = UNBIASED[epsilon]["worst_var"]["best_pm_three_mixture_double"]
    best = published.best_mixture(float(epsilon)).worst_variance
    assert expected * (1 - 1e-12) <= best <= expected * (1 + 1e-6)
    assert published.best_published_variance(float(epsilon)) == close(best, 1e-12)


# --- closed forms by themselves ------------------------------------------------------------------------


@given(epsilons)
def test_worst_cases_are_the_largest_variances(epsilon: float) -> None:
    x = np.linspace(0, 1, 2001)
    for at, worst in VARIANCES.values():
        variances = at(x, epsilon)
        assert variances.max() <= worst(epsilon) * (1 + 1e-12)
        assert variances.max() >= worst(epsilon) * (1 - 1e-5)
        np.testing.assert_allclose(variances, variances[::-1], rtol=1e-9)


@given(epsilons, st.floats(-0.3, 0.3))
def test_no_other_window_or_level_has_a_smaller_worst_case(epsilon: float, change: float) -> None:
    best = piecewise.transformation_worst_variance(epsilon)
    other = POWER(epsilon, "pm-opt") * math.exp(change)
    assert piecewise.piecewise_worst_variance(epsilon, s=other) >= best * (1 - 1e-12)
    a, _, _ = finite.three_outputs_levels(epsilon)
    cap = 1 / (1 + 2 * math.exp(-epsilon))
    moved = min(cap, max(0.0, a + change))
    level = finite.three_outputs_worst_variance(epsilon, a=moved)
    assert level >= finite.three_outputs_worst_variance(epsilon) * (1 - 1e-12)


@given(epsilons, st.floats(0.1, 50.0), st.floats(1.0, 3.0))
def test_margins_beside_the_window_are_pure_loss(epsilon: float, s: float, wider: float) -> None:
    """PTT: for every s the least output range is best, and PM-OPT is the best of those."""
    least = piecewise.least_half_range(epsilon, s)
    narrow = piecewise.transformation_worst_variance(epsilon, s=s)
    wide = piecewise.transformation_worst_variance(epsilon, s=s, half_range=wider * least)
    assert piecewise.transformation_worst_variance(epsilon) <= narrow * (1 + 1e-12)
    assert narrow <= wide
    if wider > 1.01:
        assert narrow < wide


@given(epsilons, st.floats(0.1, 20.0), st.floats(1.0, 2.0), INSIDE)
def test_transformations_are_what_their_density_integrates_to(
    epsilon: float, s: float, wider: float, x: float
) -> None:
    """Mass, mean and second moment of the density itself, piece by piece, for inputs in [-1, 1]."""
    reach = wider * piecewise.least_half_range(epsilon, s)
    half = reach / (s + 1)
    q = 1 / (2 * reach + 2 * half * math.expm1(epsilon))
    centre = (2 * x - 1) * (1 + (s + 1) / math.expm1(epsilon))
    assert abs(centre) + half <= reach * (1 + 1e-9)

    def moment(k: int) -> float:
        window = (centre + half) ** (k + 1) - (centre - half) ** (k + 1)
        whole = reach ** (k + 1) - (-reach) ** (k + 1)
        return q * (whole + math.expm1(epsilon) * window) / (k + 1)

    assert moment(0) == close(1.0, 1e-8)
    assert moment(1) == pytest.approx(2 * x - 1, abs=1e-8 * reach)
    variance = float(piecewise.transformation_variance(x, epsilon, s=s, half_range=reach))
    assert variance == pytest.approx((moment(2) - (2 * x - 1) ** 2) / 4, rel=1e-7, abs=1e-8)


@given(epsilons)
def test_theorem_five_costs_three_to_four_times_the_piecewise_mechanism(epsilon: float) -> None:
    ratio = piecewise.unbiased_optimal_worst_variance(epsilon) / piecewise.piecewise_worst_variance(epsilon)
    assert 3 < ratio < 4


@pytest.mark.parametrize("epsilon", [0.3, 0.55, 0.65, 1.0, 1.5, 1.9, 2.0, 2.06, 2.2, 3.0, 5.0, 8.0])
def test_the_best_mixture_is_attained_and_beaten_by_no_neighbour(epsilon: float) -> None:
    best = published.best_mixture(epsilon)
    x = np.linspace(0, 1, 20_001)

    def worst(share: float, s: float, a: float) -> float:
        mixed = share * piecewise.piecewise_variance(x, epsilon, s=s)
        return float((mixed + (1 - share) * finite.three_outputs_variance(x, epsilon, a=a)).max())

    assert worst(best.share, best.s, best.a) == close(best.worst_variance, 1e-7)
    cap = 1 / (1 + 2 * math.exp(-epsilon))
    rng = np.random.default_rng(7)
    for _ in range(200):
        size = 10.0 ** rng.uniform(-4, 0)
        share = min(1.0, max(0.0, best.share + size * rng.normal()))
        a = min(cap, max(0.0, best.a + size * rng.normal()))
        assert worst(share, best.s * math.exp(size * rng.normal()), a) >= best.worst_variance * (1 - 1e-7)
    # No a between the two compared ends is better.
    for a in np.linspace(0.01, 0.99, 25) * cap:
        assert mixture_at(epsilon, float(a)).worst_variance >= best.worst_variance * (1 - 1e-12)


@pytest.mark.slow
@given(epsilons)
def test_nothing_published_is_better_than_the_best_published(epsilon: float) -> None:
    best = published.best_published_variance(epsilon)
    for _, worst in VARIANCES.values():
        assert best <= worst(epsilon) * (1 + 1e-9)


@given(st.floats(0.01, 12.0), st.integers(2, 40), INSIDE)
def test_randomized_response_is_what_its_rows_say(epsilon: float, nodes: int, x: float) -> None:
    mechanism = RandomizedResponse(UNIT, epsilon, nodes=nodes)
    variance = float(finite.randomized_response_variance(x, epsilon, nodes))
    assert mechanism.variance(x) == close(variance, 1e-6)
    assert variance <= finite.randomized_response_worst_variance(epsilon, nodes) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.0, 4.0, 8.0, 12.0])
def test_the_nodes_of_randomized_response_are_the_best(epsilon: float) -> None:
    k = finite.randomized_response_nodes(epsilon)
    least = finite.randomized_response_worst_variance(epsilon, k)
    for other in range(2, 4 * k):
        assert finite.randomized_response_worst_variance(epsilon, other) >= least
    assert RandomizedResponse(UNIT, epsilon).kernel.nodes == k
    x = np.linspace(0, 1, 50_001)
    on_grid = float(finite.randomized_response_variance(x, epsilon, k).max())
    assert on_grid <= least * (1 + 1e-12)
    assert on_grid == close(least, 1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 20.0])
def test_the_ends_of_epsilon(epsilon: float) -> None:
    """Leading terms: at 0.01 of the expansion around 0, at 20 of the expansion around infinity."""
    b = square_wave_half_window(epsilon)
    a, outer, k = finite.three_outputs_levels(epsilon)
    mises, cone = directional.von_mises(epsilon), directional.purkayastha(epsilon)
    low = math.exp(-epsilon)
    if epsilon < 1:
        assert b == close(0.5 - epsilon / 3, 1e-4)
        assert (a, k) == (0.0, close(2 / epsilon, 1e-4))
        assert POWER(epsilon, "pm-opt") == close(1 + epsilon / 4, 1e-5)
        assert mises.abs_angle == close(math.pi / 2 - 2 / math.pi * epsilon / 2, 1e-4)
        assert cone.sq_angle == close(math.pi**2 / 3 * (1 - epsilon / 4), 1e-4)
    else:
        assert b == close((epsilon - 1) / 2 * low, 1e-6)
        assert outer == close(2 * low, 1e-6)
        assert 4 * float(finite.three_outputs_variance(0.5, epsilon)) == close(2 * low, 1e-7)
        assert POWER(epsilon, "pm-opt") == close((1 / low / 2) ** (1 / 3), 1e-3)
        assert cone.abs_angle == close(math.pi / epsilon, 1e-6)
        assert float(finite.three_outputs_variance(1.0, epsilon)) == close(5 * low / 4, 1e-7)
        assert float(finite.duchi_variance(0.0, epsilon)) == close(low, 1e-7)


def test_variances_near_an_end_keep_their_digits_at_large_epsilon() -> None:
    """In rational arithmetic except for e^20, which both sides share."""
    growth = Fraction(math.exp(20.0))
    for near in (1e-12, 2.0**-34, 1e-9):
        for x in (near, 1 - near):
            u = min(Fraction(x), 1 - Fraction(x))
            t, a = 1 - 2 * u, Fraction(0.3)
            reach = (growth + 1) / ((growth - 1) * (1 - a / growth))
            three = (reach**2 * (1 - a + a * (1 - 1 / growth) * t) - t**2) / 4
            assert finite.three_outputs_variance(x, 20.0, a=0.3) == pytest.approx(float(three), rel=1e-9)
            # Randomised response on 4 nodes, by its law.
            q, f = 1 / (growth + 3), 3 * u
            law = [q + (growth - 1) * q * share for share in (1 - f, f, 0, 0)]
            mean = sum(p * Fraction(j, 3) for j, p in enumerate(law))
            square = sum(p * Fraction(j, 3) ** 2 for j, p in enumerate(law))
            response = (square - mean**2) / ((growth - 1) * q) ** 2
            assert finite.randomized_response_variance(x, 20.0, 4) == pytest.approx(float(response), rel=1e-9)
