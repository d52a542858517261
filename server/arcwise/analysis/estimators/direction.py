"""The mean direction and the resultant length of a circle, from the first trigonometric moment.

A device's randomness shrinks the moment of the codes' positions by the known factor rho_1, and turns it by a
known angle if the row is not symmetric. As complex numbers, ``Z = mean(e^(i code)) / rho_1`` estimates the
population's moment. Rounding a value to one of the two nodes around it shrinks the moment a little more, by
at most ``(pi/K)^2 / 2`` of its length, with K nodes; this is not corrected. (Nodes are d = 2 pi/K apart. A
mixture of two of them with shares 1-t and t has the length ``sqrt(1 - 4 t (1-t) sin(d/2)^2)``. At t = 1/2
this is ``cos(d/2) = 1 - (pi/K)^2/2 + ...``.) The intervals of the resultant length and of the direction allow
for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.inference_target import FEW, NO_POPULATION, hotelling, two_sided, whose
from arcwise.analysis.estimators.mean import impossible, reach
from arcwise.analysis.estimators.result import Value, all_notes
from arcwise.analysis.grid import coarse_notes, to_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.analysis.estimators.survey import Survey
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import ComplexArray, FloatArray

_FEWEST = 5  # fewest reports for a direction or for an interval of the length

_LEAST_ATTENUATION = 1e-9
"""Least factor to divide by: smaller factors consist partly of rounding errors."""

_DIRECTION = "argument of the first trigonometric moment; Fieller's interval"
_NO_MODE = "where the average arrow points, not where most people are"
_NO_CLUSTERS = "of the average arrow: opposite groups cancel, however concentrated"


class Moment(NamedTuple):
    """Z, an estimate of the first trigonometric moment, and its covariance matrix."""

    z: FloatArray
    covariance: FloatArray


class Arrow(NamedTuple):
    """The estimate of the first trigonometric moment, with its samples and its errors.

    The reports come from at least `devices` devices; of several samples, the smallest one counts.
    ``reach(angle, level)`` is how far the expectation of the component of Z in the direction `angle` may lie
    above that component. Each sample has a weight.
    """

    moment: Moment
    devices: float
    reach: Callable[[float, float], float]
    samples: Sequence[tuple[Survey, float]]

    @property
    def few(self) -> str:
        """The note on few reports of the smallest sample, or ""."""
        return min((each for each, _ in self.samples), key=lambda each: each.devices).few

    def too_long(self) -> bool:
        """Return whether honest reports hardly ever have an arrow this long."""
        angle = (
            round(math.atan2(self.moment.z[1], self.moment.z[0]) * _ANGLES / math.tau) * math.tau / _ANGLES
        )
        several = [(each, weight, component(each.mechanism, angle)) for each, weight in self.samples]
        return impossible(several, trials=_ANGLES)


_ANGLES = 180  # number of directions; the length of an arrow is tested at the nearest one


def arrow_of(survey: Survey) -> Arrow:
    """Return the estimate of the first trigonometric moment from one sample of reports."""
    devices = survey.devices

    def reach_at(angle: float, level: float) -> float:
        return reach(survey, component(survey.mechanism, angle), two_sided(level, devices))

    return Arrow(first_moment(survey), devices, reach_at, [(survey, 1.0)])


def component(mechanism: Mechanism, angle: float) -> FloatArray:
    """Return the numbers per code with an average equal to the component of Z at an angle, shape (K,)."""
    turns = np.exp(1j * (2 * math.pi * mechanism.code_units() - angle)) / row_attenuation(mechanism)
    components: FloatArray = turns.real
    return components


def first_moment(survey: Survey) -> Moment:
    """Return the first trigonometric moment, corrected for the devices' randomness.

    The covariance is that of the reports, but in every direction at least that of a single row: for any
    inputs, reports vary at least by the randomness of their devices. This matters only when a few reports
    happen to agree. The covariance of a row, with moments m_1 and m_2, has the eigenvalues
    ``(1 - |m_1|^2 +- |m_2 - m_1^2|) / 2``, and a mixture of rows has no eigenvalue below the smaller one.

    For users the covariance is that of the devices' randomness (`_device_covariance`). If only a share of the
    users was drawn, the part of the reports' covariance due to sampling is added. If devices report several
    times, the covariance of their values is added for each repeat (`survey`): the reports' covariance minus
    that of the devices' randomness, plus one standard error.
    """
    mechanism, counts, n, users = survey.mechanism, survey.counts, survey.n, survey.users
    turns = np.exp(2j * math.pi * mechanism.code_units())
    points = np.stack([turns.real, turns.imag])
    average = points @ counts / n
    centred = points - average[:, None]
    covariance = (centred * counts) @ centred.T / max(n - 1.0, 1.0)
    (row,) = mechanism.kernel.probabilities([0])
    m1, m2 = complex(row @ turns), complex(row @ turns**2)
    least = (1 - abs(m1) ** 2 - abs(m2 - m1**2)) / 2
    sizes, axes = np.linalg.eigh(covariance)
    covariance = axes * np.maximum(sizes, least) @ axes.T
    if users is not None or survey.repeats > 1.0:
        own = _device_covariance(mechanism, turns, survey.probabilities)
        if survey.repeats > 1.0:
            sizes, axes = np.linalg.eigh(covariance - own)
            between = np.maximum(sizes, 0.0) + math.sqrt(2.0 / n) * float(np.trace(covariance))
            covariance = covariance + (survey.repeats - 1.0) * (axes * between) @ axes.T
        if users is not None:
            covariance = users.mixed(own, covariance)
    inverse = 1.0 / row_attenuation(mechanism)
    undo = np.array([[inverse.real, -inverse.imag], [inverse.imag, inverse.real]])
    return Moment(undo @ average, undo @ covariance @ undo.T / n)


def _device_covariance(mechanism: Mechanism, turns: ComplexArray, law: FloatArray) -> FloatArray:
    """Return the covariance matrix of a report due to the device's randomness, averaged over users.

    The row of node 0 has the moments m_1 and m_2. The row of node s is turned by ``t = e^(i d s)``, with d
    the distance between nodes: ``E |e - Ee|^2 = 1 - |m_1|^2`` and ``E (e - Ee)^2 = (m_2 - m_1^2) t^2``.
    Between two nodes, random rounding adds ``u (1-u) |c|^2`` along c, the difference of the rows' first
    moments. With ``u (1-u)`` taken as its maximum 1/4, this adds ``|c|^2 / 4`` to the first and ``c^2 / 4``,
    turned, to the second. A pair (a, b) of these stands for the matrix
    ``((a + Re b, Im b), (Im b, a - Re b)) / 2``.
    """
    (row,) = mechanism.kernel.probabilities([0])
    nodes = len(law)
    m1, m2 = complex(row @ turns), complex(row @ turns**2)
    step = np.exp(2j * math.pi / nodes)
    squares = complex(law @ np.exp(4j * math.pi * np.arange(nodes) / nodes))
    # The two nodes around a value are a step apart; the node in the law may be either of them.
    chord = (m1 * (step - 1)) ** 2 / 4
    a = 1 - abs(m1) ** 2 + abs(chord)
    b = ((m2 - m1**2) + chord * (1 + step**-2) / 2) * squares
    return np.array([[a + b.real, b.imag], [b.imag, a - b.real]]) / 2


def row_attenuation(mechanism: Mechanism) -> complex:
    """Return the factor between the first moment of an input at a node and the first moment of its report.

    `CircularMechanism.attenuation` is its real part; a row that is not symmetric also turns the moment.
    """
    (row,) = mechanism.kernel.probabilities([0])
    start = float(mechanism.node_units(np.zeros(1))[0])
    return complex(row @ np.exp(2j * math.pi * (mechanism.code_units() - start)))


def untold(mechanism: Mechanism) -> str:
    """Return the reason why the reports do not determine the first moment; "" if they determine it."""
    if mechanism.kernel.codes < 3:
        return "two cells"
    if abs(row_attenuation(mechanism)) < _LEAST_ATTENUATION:
        return "rows whose first moment vanishes"
    return ""


def direction(survey: Survey, *, level: float = 0.95) -> Value:
    """Return the mean direction, in the unit of the domain, with Fieller's interval.

    A direction u is in the interval unless the component of Z across u differs significantly from zero
    (Fieller 1954), that is by more than the reach of that average (`mean.reach`). The delta method fails near
    zero resultant length. So the interval is the whole circle if ``Z V^-1 Z``, with V the covariance of Z,
    does not exceed Hotelling's quantile, and always with fewer than 5 reports. With many reports Hotelling's
    quantile is the chi-square quantile with 2 degrees of freedom. The largest turn that rounding to nodes can
    cause is added to the reach.
    """
    mechanism = survey.mechanism
    if why := untold(mechanism):
        return Value(None, 0.0, mechanism.domain.length, _DIRECTION, (f"{why} cannot show a direction",))
    return arrow_direction(mechanism, arrow_of(survey), level, whose(survey.users))


def arrow_direction(mechanism: Mechanism, arrow: Arrow, level: float, about: str) -> Value:
    """Return an arrow's direction as `direction` does; the note `about` names the people behind it."""
    period, method = mechanism.domain.length, _DIRECTION
    moment, n, *_ = arrow
    angle = math.atan2(moment.z[1], moment.z[0])
    unit = angle / (2 * math.pi) % 1.0
    value = period * (unit if unit < 1.0 else 0.0)
    arc = None
    if n >= _FEWEST:
        shortest = math.hypot(*moment.z) - arrow.reach(angle + math.pi, level)
        arc = _arc(arrow, level, turned(mechanism, shortest))
    notes = all_notes(arrow.few, _NO_MODE, about)
    if arc is None:
        why = "a uniform population is compatible with the reports" if n >= _FEWEST else "too few reports"
        return Value(value, 0.0, period, method, all_notes(f"the direction is not determined: {why}", notes))
    # Only an arrow longer than 1 can be longer than any population's.
    if math.hypot(*moment.z) > 1.0 and _length(arrow, level).low > 1.0 and arrow.too_long():
        notes = all_notes(NO_POPULATION, notes)
    below, above = (side / (2 * math.pi) for side in arc)
    unit = value / period
    low, high = to_domain(mechanism.domain, unit - below), to_domain(mechanism.domain, unit + above)
    return Value(value, min(low, value), max(high, value), method, notes)


def turned(mechanism: Mechanism, shortest: float) -> float:
    """Return how far rounding may move the moment perpendicular to its direction; 0 if nothing is rounded.

    The moment is at least `shortest` long. Let R be its length. The sines of the population's angles from the
    direction sum to 0, and those on either side sum to at most ``sqrt(1 - R^2) / 2``. Rounding shrinks them
    by factors between ``cos h`` and 1, with h half the distance between nodes, and possibly on one side only.
    Rounding also turns a value between nodes by ``atan(s tan h) - s h``, with s from -1 to 1: by at most
    ``2 h^3 / (9 sqrt 3)``.
    """
    if not mechanism.rounds:
        return 0.0
    h = math.pi / mechanism.kernel.nodes
    across = math.sqrt(1.0 - min(max(shortest, 0.0), 1.0) ** 2)
    return (1.0 - math.cos(h)) * across / 2 + 2 * h**3 / (9 * math.sqrt(3))


def _arc(arrow: Arrow, level: float, rounding: float) -> tuple[float, float] | None:
    """Return how far the interval reaches below and above the argument of Z, in radians; None: all around.

    `fieller_arc` treats the components of Z as normal. Here the component across u has the reach of an
    average (`reach`) plus `rounding`. At an end u of the interval, this reach equals the component's distance
    from zero. The ends are found by secants.
    """
    (z, covariance), modulus = arrow.moment, math.hypot(*arrow.moment.z)
    if modulus <= rounding:
        return None
    arc = fieller_arc(Moment(z * (1.0 - rounding / modulus), covariance), level, reports=arrow.devices)
    if arc is None:
        return None
    angle = math.atan2(z[1], z[0])

    def side(sign: int, away: float) -> float:
        slope, before, found = -modulus * math.cos(away), math.nan, math.nan
        for _ in range(_SECANTS):
            if away >= math.pi / 2:
                return math.pi / 2
            # The largest possible component across u, seen from Z: 0 at the end.
            most = rounding + arrow.reach(angle + sign * (away + math.pi / 2), level)
            most -= modulus * math.sin(away)
            if before != away and not math.isnan(before):
                slope = min((most - found) / (away - before), -_FLATTEST)
            before, found, away = away, most, max(away - most / slope, 0.0)
            if abs(away - before) <= 3e-3 * away:
                break
        return away

    below, above = side(-1, arc[0]), side(1, arc[1])
    return None if max(below, above) >= math.pi / 2 else (below, above)


_SECANTS = 6  # most steps to an end of the interval; the function is nearly a sine
_FLATTEST = 1e-3  # the least slope of a secant, which limits its step


def fieller_arc(moment: Moment, level: float, *, reports: float = math.inf) -> tuple[float, float] | None:
    """Return how far the interval reaches below and above the argument of Z, in radians; None: all around.

    Let V be the covariance of Z, and t Student's quantile. With ``M = Z Z' - t^2 V`` the normals n of the
    interval's directions satisfy ``n M n <= 0``. If the test of zero resultant rejects, M has a positive
    eigenvalue l1, with eigenvector e1, and a negative eigenvalue l2, with eigenvector e2. The normals are
    within ``atan sqrt(-l2/l1)`` of +-e2, so the directions are within the same angle of +-e1.
    """
    z, covariance = moment
    if z @ np.linalg.solve(covariance, z) <= hotelling(level, reports):
        return None
    quantile = two_sided(level, reports)
    sizes, axes = np.linalg.eigh(np.outer(z, z) - quantile**2 * covariance)
    half = math.atan(math.sqrt(max(-sizes[0], 0.0) / sizes[1]))
    axis = axes[:, 1] if axes[:, 1] @ z > 0 else -axes[:, 1]
    shift = math.atan2(z[0] * axis[1] - z[1] * axis[0], z @ axis)  # from Z to the middle of the arc
    return max(half - shift, 0.0), max(half + shift, 0.0)


def resultant_length(survey: Survey, *, level: float = 0.95) -> Value:
    """Return the mean resultant length R, from 0 (no direction) to 1 (all the same).

    ``|Z|^2`` is too large by the trace of V, the covariance of Z, on average, so the point is
    ``sqrt(|Z|^2 - trace V)``, or 0 if that is negative. If R exceeds 3 standard errors, the interval is that
    of an average (`mean.reach`) of the component along Z. Otherwise it inverts the noncentral chi-square law
    that ``|Z|^2`` approximately has.

    With few reports the covariance is uncertain too, so it is enlarged as Student's t enlarges a variance.
    With fewer than 30 reports, the standard error is that of the direction in which Z varies most. With fewer
    than 5 reports the interval is [0, 1].
    """
    if why := untold(survey.mechanism):
        return Value(None, 0.0, 1.0, "none", (f"{why} cannot show a resultant length",))
    return arrow_length(survey.mechanism, arrow_of(survey), level, whose(survey.users))


def arrow_length(mechanism: Mechanism, arrow: Arrow, level: float, about: str) -> Value:
    """Return an arrow's length as `resultant_length` does; the note `about` names the people behind it."""
    moment, n, *_ = arrow
    notes = all_notes(arrow.few, coarse_notes(mechanism), _NO_CLUSTERS, about)
    if n < _FEWEST:
        value = min(math.sqrt(max(float(moment.z @ moment.z) - float(np.trace(moment.covariance)), 0.0)), 1.0)
        method = "debiased modulus of the first trigonometric moment; too few reports for an interval"
        return Value(value, 0.0, 1.0, method, notes)
    length = _length(arrow, level)
    if length.low > 1.0 and arrow.too_long():
        notes = all_notes(NO_POPULATION, notes)
    value, low, high = (min(max(x, 0.0), 1.0) for x in length[:3])
    # Rounding shrinks the components along the arrow, which sum to at most (1+R)/2, and those against it,
    # which sum to at most (1-R)/2.
    shrunk = 1.0 - math.cos(math.pi / mechanism.kernel.nodes) if mechanism.rounds else 0.0
    low, high = max(low - shrunk * (1.0 - low) / 2, 0.0), min(high + shrunk * (1.0 + high) / 2, 1.0)
    method = f"debiased modulus of the first trigonometric moment; {length.law} interval"
    return Value(value, min(low, value), max(high, value), method, notes)


def circular_variance(length: Value) -> Value:
    """Return the circular variance ``1 - R``, from 0 (all the same) to 1, given the resultant length R."""
    value, low, high = (
        None if each is None else 1.0 - each for each in (length.value, length.high, length.low)
    )
    return Value(value, low, high, f"1 - resultant length: {length.method}", length.notes)


class _Length(NamedTuple):
    """An estimate of R before it is clipped to [0, 1], and the law behind its interval."""

    value: float
    low: float
    high: float
    law: str


def _length(arrow: Arrow, level: float) -> _Length:
    (z, covariance), devices, reach_at, _ = arrow
    square, trace = float(z @ z), float(np.trace(covariance))
    value = math.sqrt(max(square - trace, 0.0))
    error = math.sqrt(float(z @ covariance @ z) / square) if square else math.sqrt(trace / 2)
    if devices < FEW:
        # Use the larger variance: a few reports that agree by chance must not make the length look precise.
        error = math.sqrt(float(np.linalg.eigvalsh(covariance)[-1]))
    quantile = two_sided(level, devices)
    if value > 3 * error:
        angle = math.atan2(z[1], z[0])
        below, above = (reach_at(at, level) for at in (angle + math.pi, angle))
        if devices < FEW:
            below, above = max(below, quantile * error), max(above, quantile * error)
        return _Length(value, value - below, value + above, "empirical likelihood")
    # If the covariance is round, |Z|^2 is half the trace times a chi-square variable with 2 degrees of
    # freedom. If it lies on a line, |Z|^2 is the trace times a chi-square variable with 1 degree of freedom.
    # In between, the scale and the degrees of freedom match the mean and the variance of |Z|^2.
    second = float((covariance**2).sum())
    freedom = trace**2 / second
    scale = second / trace * (quantile / two_sided(level, math.inf)) ** 2
    tail = (1 - level) / 2
    low = math.sqrt(scale * _noncentrality(square / scale, 1 - tail, freedom))
    high = math.sqrt(scale * _noncentrality(square / scale, tail, freedom))
    # A modulus that is tiny by chance would give a high end of 0. A wider interval is always valid.
    return _Length(value, low, max(high, math.sqrt(scale)), "noncentral chi-square")


def _noncentrality(x: float, probability: float, freedom: float) -> float:
    """Return the noncentrality at which a chi-square is at most x with `probability`.

    The result is 0 if no noncentrality does this.
    """
    from scipy.optimize import brentq
    from scipy.special import chndtr

    def excess(noncentrality: float) -> float:
        return float(chndtr(x, freedom, noncentrality)) - probability

    if excess(0.0) <= 0:
        return 0.0
    # The law is near N(nc + 2, 4 nc + 4) or narrower, so this end is far beyond the root for the levels in
    # use.
    high = x + 10.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high))
