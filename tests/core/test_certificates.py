"""The privacy statement, checked by brute force over all rows and with separate arithmetic.

Nothing here trusts the library: ratios come from every weight of every row, and e^epsilon comes from
`decimal` with 100 digits, not from the library's Taylor series.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels import Certificate, WindowKernel, exp_lower_bound
from arcwise.kernels.certificate import UNIT, certify, exact_epsilon
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.mechanisms.registry import mechanism_from_fields, mechanism_to_fields
from tests.core.brute_force import exp_bounds, largest_ratio
from tests.support.strategies import WINDOW_EXAMPLES, WindowExample, WindowMechanisms, epsilons

EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
SIZES = [(epsilon, 128) for epsilon in EPSILONS] + [
    (epsilon, nodes) for epsilon in (0.01, 0.5, 1.0, 4.0, 20.0) for nodes in (2, 3, 33, 127, 256)
]


@pytest.fixture(params=WINDOW_EXAMPLES, ids=repr)
def example(request: pytest.FixtureRequest) -> WindowExample:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(("epsilon", "nodes"), SIZES)
def test_certificate_holds_over_all_rows(example: WindowExample, epsilon: float, nodes: int) -> None:
    mechanism = example.make(epsilon, nodes)
    kernel = mechanism.kernel
    for node in range(kernel.nodes):
        row = kernel.row(node)
        assert len(row) == kernel.codes
        assert sum(row) == 2**64
        assert min(row) > 0
        assert all(type(weight) is int for weight in row)
    ratio = largest_ratio(kernel)
    assert ratio is not None
    below, above = exp_bounds(epsilon)
    assert ratio == kernel.ratio()
    assert ratio <= below
    assert ratio >= above * (1 - Fraction(1, 10**9))
    # As g + 1 is infeasible and lowers b by at most 1, integers lose less than 1/b compared with epsilon.
    assert ratio > above * (1 - Fraction(1, kernel.background) - Fraction(1, 2**100))
    assert nodes != 128 or ratio >= above * (1 - Fraction(2, 10**12))
    certificate = mechanism.certificate()
    assert certificate == Certificate(epsilon=epsilon, delta=0, ratio=ratio)
    assert certificate.spent_epsilon == pytest.approx(epsilon, rel=1e-9)
    assert str(certificate).startswith(f"epsilon = {epsilon:g}, delta = 0: ")


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("nodes", [2, 3, 33, 128, 256])
def test_geometry_is_that_of_the_design(epsilon: float, nodes: int) -> None:
    root = Decimal(repr(epsilon / 2)).exp()
    line = OptimalPiecewise(Interval(0, 1), epsilon, nodes=nodes).kernel
    clamp = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp", nodes=nodes).kernel
    circle = OptimalCircular(Circle(1), epsilon, nodes=nodes).kernel
    assert line == clamp
    assert line.window == max(1, round((nodes - 1) / root))
    assert (line.nodes, line.codes, line.circular) == (nodes, nodes + line.window - 1, False)
    assert circle.window == max(1, round(nodes / (1 + root)))
    assert (circle.nodes, circle.codes, circle.circular) == (nodes, nodes, True)
    if nodes == 128:  # the default
        assert max(line.codes, circle.codes) <= 256


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("nodes", [2, 3, 128, 256, 32_768])
def test_fit_takes_the_largest_feasible_extra(example: WindowExample, epsilon: float, nodes: int) -> None:
    kernel = example.make(epsilon, nodes).kernel
    _, above = exp_bounds(epsilon)
    g, w, k = kernel.extra, kernel.window, kernel.codes
    for larger in (g + 1, g + 2, g + w, g + k, 2 * g):
        background = (UNIT - w * larger) // k
        assert background < 1 or 1 + Fraction(larger, background) > above
    assert kernel.background == (UNIT - w * g) // k
    assert 0 <= kernel.leftover < k


def rebuilt(mechanism: WindowMechanisms, *, background: int, extra: int) -> WindowMechanisms:
    """Return the mechanism with other weights, built as from a task's bytes."""
    name, version, kernel = mechanism_to_fields(mechanism)
    made = mechanism_from_fields(
        [name, version, [*kernel[:5], background, extra]], mechanism.domain, mechanism.epsilon
    )
    assert isinstance(made, OptimalPiecewise | OptimalCircular)
    return made


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("nodes", [2, 3, 128])
def test_a_kernel_that_is_too_strong_has_no_certificate(
    example: WindowExample, epsilon: float, nodes: int
) -> None:
    mechanism = example.make(epsilon, nodes)
    kernel = mechanism.kernel
    g, w, k = kernel.extra, kernel.window, kernel.codes
    extra_larger = rebuilt(mechanism, extra=g + 1, background=(UNIT - w * (g + 1)) // k)
    background_smaller = rebuilt(
        mechanism, background=kernel.background - 1, extra=g + (k + kernel.leftover) // w
    )
    for stronger in (extra_larger, background_smaller):
        ratio = largest_ratio(stronger.kernel)
        assert ratio is not None
        assert ratio > exp_bounds(epsilon)[1]
        with pytest.raises(
            CertificateError, match=r"largest ratio of weights is .*, more than e\^epsilon = "
        ):
            stronger.certificate()
    # The same integers pass at a larger epsilon, and a weaker kernel passes at this one.
    assert certify(extra_larger.kernel.ratio(), epsilon + 0.001).delta == 0
    smaller = g - 1 - g // 10**6
    assert rebuilt(mechanism, extra=smaller, background=(UNIT - w * smaller) // k).certificate()


@given(epsilons)
def test_exp_lower_bound_is_below_and_close(epsilon: float) -> None:
    below, above = exp_bounds(epsilon)
    bound = exp_lower_bound(epsilon)
    assert above * (1 - Fraction(1, 2**180)) <= bound <= below


def test_exp_lower_bound_at_its_ends() -> None:
    assert exp_lower_bound(0.0) == 1
    for bad in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="epsilon must be finite and at least 0, got"):
            exp_lower_bound(bad)


@given(epsilons)
def test_exact_epsilon_is_the_smaller_reading(epsilon: float) -> None:
    exact = exact_epsilon(epsilon)
    assert exact <= Fraction(epsilon)
    assert exact <= Fraction(repr(epsilon))
    assert exact in (Fraction(epsilon), Fraction(repr(epsilon)))


def test_exact_epsilon_of_decimals() -> None:
    assert exact_epsilon(0.1) == Fraction(1, 10) < Fraction(0.1)
    assert exact_epsilon(0.3) == Fraction(0.3) < Fraction(3, 10)


@pytest.mark.parametrize(
    "bad", [True, None, "1", float("nan"), float("inf"), 0, 0.0099, 20.000001, -1, 1j, 10**400]
)
def test_bad_epsilons_are_refused(example: WindowExample, bad: Any) -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be .*from 0\.01 to 20, got "):
        example.make(bad, 128)


@pytest.mark.parametrize("bad", [True, "128", 1, 0, -5, 2.0, 65_537])
def test_bad_nodes_are_refused(example: WindowExample, bad: Any) -> None:
    with pytest.raises(ParameterError, match=r"nodes must be an integer from 2 to (32768|65536), got "):
        example.make(1.0, bad)


def test_domain_and_placement_must_fit_the_mechanism() -> None:
    circle: Any = Circle(360)
    interval: Any = Interval(0, 1)
    with pytest.raises(
        ParameterError,
        match=r"domain must be an Interval, got Circle.*OptimalPiecewise supports no other domain",
    ):
        OptimalPiecewise(circle, 1.0)
    with pytest.raises(
        ParameterError,
        match=r"domain must be a Circle, got Interval.*OptimalCircular supports no other domain",
    ):
        OptimalCircular(interval, 1.0)
    middle: Any = "middle"
    with pytest.raises(ParameterError, match='placement must be "inset" or "clamp", got \'middle\''):
        OptimalPiecewise(interval, 1.0, placement=middle)
    line = OptimalPiecewise(interval, 1.0).kernel_fields()
    ring = OptimalCircular(circle, 1.0).kernel_fields()
    with pytest.raises(ParameterError, match="window must be from 1 to codes - 1"):
        OptimalPiecewise.from_fields(interval, 1.0, "inset", ring)
    with pytest.raises(ParameterError, match="window must be from 1 to codes - 1"):
        OptimalCircular.from_fields(circle, 1.0, "wrap", line)
    with pytest.raises(ParameterError, match="placement must be \"wrap\" on a Circle, got 'clamp'"):
        OptimalCircular.from_fields(circle, 1.0, "clamp", ring)


GOOD: dict[str, Any] = {
    "codes": 4,
    "nodes": 4,
    "window": 2,
    "background": 2**61,
    "extra": 2**62,
    "circular": True,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": 4.0}, "codes must be an integer, got 4.0"),
        ({"nodes": True}, "nodes must be an integer, got True"),
        ({"extra": "1"}, "extra must be an integer, got '1'"),
        ({"nodes": 1}, "nodes and codes must satisfy 2 <= nodes <= codes <= 65536, got 1 and 4"),
        ({"nodes": 5}, "2 <= nodes <= codes"),
        ({"codes": 65_537, "nodes": 65_537}, "nodes <= codes <= 65536, got 65537 and 65537"),
        ({"nodes": 3}, "codes = nodes; got window 2, nodes 3, codes 4"),
        ({"circular": False}, r"codes = nodes \+ window - 1; got window 2, nodes 4, codes 4"),
        ({"window": 0}, "window must be from 1 to codes - 1"),
        ({"window": 4}, "window must be from 1 to codes - 1"),
        ({"background": 0}, "background and extra must be at least 1, got 0"),
        ({"extra": 0}, "background and extra must be at least 1"),
        ({"extra": -1}, "background and extra must be at least 1"),
        ({"extra": 2**62 + 1}, r"must lie in \(2\*\*64 - codes, 2\*\*64\], got 18446744073709551618"),
        ({"extra": 2**62 - 2}, r"must lie in \(2\*\*64 - codes, 2\*\*64\], got 18446744073709551612"),
    ],
)
def test_integers_that_make_no_rows_are_refused(change: dict[str, Any], message: str) -> None:
    assert sum(WindowKernel(**GOOD).row(0)) == 2**64
    with pytest.raises(ParameterError, match=message):
        WindowKernel(**{**GOOD, **change})


@given(st.sampled_from(WINDOW_EXAMPLES), epsilons, st.integers(2, 300))
def test_certificates_at_any_epsilon_and_size(example: WindowExample, epsilon: float, nodes: int) -> None:
    mechanism = example.make(epsilon, nodes)
    below, above = exp_bounds(epsilon)
    assert above * (1 - Fraction(1, 10**9)) <= mechanism.kernel.ratio() <= below
    assert mechanism.certificate().ratio == mechanism.kernel.ratio()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (None, "mechanism must be \\[name, version, "),
        ([], "mechanism must be \\[name, version, "),
        (["optimal-piecewise", 1, ["window"]], "mechanism must be \\[name, version, "),
        (
            ["optimal-piecewise", 1, ["window", "inset", 4, 3]],
            "mechanism 'optimal-piecewise' has other fields",
        ),
        (["designed-table", 1, ["table", "inset", 4, 3]], "domain must be|has other fields"),
        ([["optimal-piecewise"], 1, ["window", "inset", 3, 2, 2, 1, 1]], "mechanism must be \\[name"),
        (
            ["guess", 1, ["window", "inset", 3, 2, 2, 1, 1]],
            "mechanism 'guess' version 1 .* is unknown; this arcwise knows",
        ),
        (["optimal-piecewise", 2, ["window", "inset", 3, 2, 2, 1, 1]], "version 2 .* is unknown"),
        (["optimal-piecewise", 1, ["table", "inset", 3, 2, 2, 1, 1]], r"\('table'\) is unknown"),
    ],
)
def test_fields_of_no_mechanism_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mechanism_from_fields(fields, Interval(0, 1), 1.0)
