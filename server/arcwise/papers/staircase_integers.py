"""Geng and Viswanath, section VI: the staircase on the integers. Figure 5, the optimal r, Theorem 10."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import DiscreteStaircase, Geometric, Staircase, optimal_gamma, optimal_r
from arcwise.papers.base import Check, Outcome, Progress, Table, formula, listed, reproduction, steps
from arcwise.papers.pictures import EPSILON, Panel, Picture, line, look, mark, note
from arcwise.papers.staircase_noise import SOURCE

_VALUES = ((1.0, 2), (2.0, 3), (3.0, 2))
_PERIODS = (1, 2, 3, 5)
_CYCLE = 48
"""For a finite program, outputs lie on a cycle of this many integers. At most e^-8 of a tail is lost."""


def _least_of_values(epsilon: float, sensitivity: int, period: int) -> float:
    """Return the least worst-case ``E|noise|`` of noise that may depend on the value modulo `period`.

    It solves a linear program over the masses P_i(n) of the noise n at the values i, i + period, ...; values
    i and i + d with ``|d|`` up to the sensitivity have ``P_i(n) <= e^epsilon P_(i+d)(n - d)``.
    """
    size = _CYCLE
    n, ratio, rows = np.arange(size), np.exp(epsilon), period * size
    place = np.arange(rows).reshape(period, size)
    shifts = [d for d in range(-sensitivity, sensitivity + 1) if d]
    other = [place[(np.arange(period)[:, None] + d) % period, (n - d) % size].ravel() for d in shifts]
    one, at = sparse.identity(rows, format="csr"), np.arange(rows)
    privacy = [
        one - sparse.csr_matrix((np.full(rows, ratio), (at, columns)), shape=(rows, rows))
        for columns in other
    ]
    each = sparse.kron(sparse.identity(period), np.ones((1, size)))
    cost = sparse.kron(sparse.identity(period), np.minimum(n, size - n)[None].astype(float))
    worst = sparse.csr_matrix(np.full((period, 1), -1.0))
    found = linprog(
        np.append(np.zeros(rows), 1.0),
        A_ub=sparse.bmat([[sparse.vstack(privacy), None], [cost, worst]], format="csr"),
        b_ub=np.zeros(len(shifts) * rows + period),
        A_eq=sparse.hstack([each, sparse.csr_matrix((period, 1))], format="csr"),
        b_eq=np.ones(period),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(found.fun)


@reproduction(
    "staircase-values",
    f"{SOURCE}, Theorems 2 and 10",
    "noise that depends on the value against noise that does not, by linear programs",
)
def _of_values(_full: bool, progress: Progress) -> Outcome:
    rows: list[tuple[float, ...]] = []
    checks: list[Check] = []
    least: dict[tuple[float, int], list[float]] = {case: [] for case in _VALUES}
    for case, period in steps(progress, itertools.product(_VALUES, _PERIODS)):
        epsilon, sensitivity = case
        staircase = DiscreteStaircase.optimal(epsilon, sensitivity).abs_moment(1)
        least[case].append(_least_of_values(epsilon, sensitivity, period))
        common, found = least[case][0], least[case][-1]
        rows.append((epsilon, sensitivity, period, found, staircase))
        what = f"least worst E|X| of noise with period {period}, epsilon {epsilon:g}, D = {sensitivity}"
        if period == 1:
            checks.append(formula(f"{what}; of the staircase", staircase, found, 1e-3))
        else:
            checks.append(formula(f"{what}; of common noise", common, found, 1e-7))
    marks = [
        line(_PERIODS, least[e, s], rf"$\varepsilon$ = {e:g}, $\Delta$ = {s}", k, marker="o")
        for k, (e, s) in enumerate(_VALUES)
    ]
    columns = ("epsilon", "sensitivity", "period (integers)", "least (integers)", "staircase (integers)")
    panel = Panel(marks, "period of the noise over the values", r"least worst $E|X|$", ylim=(0.0, None))
    return Outcome(
        {"": Table(columns, rows)},
        Picture([[panel]]),
        checks,
        [
            "Noise that depends on the value, with any of these periods, has no smaller worst case than "
            "noise that does not depend on it. If it is shifted by every value and averaged, the result is "
            "noise with one law, which is no worse (Theorem 10). With steps of the reals as integers this is "
            "Theorem 2."
        ],
    )


@reproduction(
    "staircase-integers-mass", f"{SOURCE}, Figure 5", "the mass function of the staircase on the integers"
)
def _mass(_full: bool, _progress: Progress) -> Outcome:
    noise, geometric = DiscreteStaircase.optimal(1.0, 5), Geometric(1.0, 5)
    n = np.arange(-16, 17)
    bars = {"width": 0.7, "color": COLOURS[5], "edgecolor": COLOURS[0], "linewidth": 0.6}
    marks = [
        mark("bar", n, noise.pmf(n), label="staircase", **bars),
        mark("plot", n, geometric.pmf(n), "o", color=COLOURS[1], markersize=3.5, label="geometric"),
    ]
    title = rf"$\varepsilon = 1$, $\Delta = 5$, $r = {noise.r}$"
    return Outcome(
        {"": Table.of({"n": n, "staircase_mass": noise.pmf(n), "geometric_mass": geometric.pmf(n)})},
        Picture([[Panel(marks, "$n$", "$P(X = n)$", title, xlim=(-16.5, 16.5))]]),
        [],
        [
            f"At sensitivity 5 and epsilon 1 the best r for |x| is {noise.r}. The staircase has E|X| = "
            f"{noise.abs_moment(1):.4f}, and geometric noise has {geometric.abs_moment(1):.4f}."
        ],
    )


_EPSILONS = (0.5, 1.0, 2.0, 4.0)
_LARGE = 4096
"""A sensitivity at which the integers are nearly as fine as the reals."""


@reproduction(
    "staircase-integers-r", f"{SOURCE}, Theorems 11 and 12", "optimal r over sensitivity and epsilon"
)
def _optimal_r(full: bool, progress: Progress) -> Outcome:
    largest = 1000 if full else 200
    sensitivities = np.unique(np.rint(np.geomspace(1, largest, 160)).astype(int))
    rows = []
    for e in steps(progress, _EPSILONS):
        for s in sensitivities.tolist():
            best = [DiscreteStaircase.optimal(e, s, power=p) for p in (1, 2)]
            gains = [Geometric(e, s).abs_moment(p) / noise.abs_moment(p) for p, noise in enumerate(best, 1)]
            rows.append((e, s, best[0].r, best[1].r, *gains))
    table = np.array(rows).reshape(len(_EPSILONS), len(sensitivities), -1)
    fine = np.linspace(0.02, 8.0, 267)
    over_epsilon = {s: np.array([optimal_r(e, s) for e in fine]) for s in (1, 2, 5, 20)}

    left = []
    for k, e in enumerate(_EPSILONS):
        gamma, shares = optimal_gamma(e), table[k, :, 2] / sensitivities
        left += [
            mark("semilogx", sensitivities, shares, "os^v"[k], color=COLOURS[k], markersize=2.4),
            mark("axhline", gamma, linewidth=1.0, **look(k, 1)),
        ]
        # Put the labels outside the frame, at the ends of the lines.
        outside = {"offset": (4, 0), "va": "center", "annotation_clip": False}
        left.append(note(sensitivities[-1], gamma, rf"$\varepsilon$ = {e:g}", COLOURS[k], **outside))
    right = [
        line(fine, r, rf"$\Delta$ = {s}", k, k, method="step", where="mid")
        for k, (s, r) in enumerate(over_epsilon.items())
    ]
    x, y, title = r"sensitivity $\Delta$", r"$r\,/\,\Delta$, dashed: $\gamma$", "optimal for $|x|$"
    panels = [
        Panel(left, x, y, title, xlim=(1, sensitivities[-1]), ylim=(0.0, 1.02), plain="x"),
        Panel(right, EPSILON, "$r$", title, xlim=(0.0, 8.0), ylim=(0.0, 10.5)),
    ]
    columns = ("epsilon", "sensitivity", "r_1", "r_2", "gain_1", "gain_2")
    curves = {f"r_at_sensitivity_{s}": r for s, r in over_epsilon.items()}
    discrete = [DiscreteStaircase.optimal(e, _LARGE).abs_moment(1) / _LARGE for e in _EPSILONS]
    continuous = [Staircase.optimal(e).abs_moment(1) for e in _EPSILONS]
    deviation = max(abs(a / b - 1.0) for a, b in zip(discrete, continuous, strict=True))
    return Outcome(
        {"over-sensitivity": Table(columns, rows), "over-epsilon": Table.of({"epsilon": fine, **curves})},
        Picture([panels], (7.4, 3.4)),
        [
            *(_geometric_check(e, p) for p in (1, 2) for e in _EPSILONS),
            *(_gamma_check(e, p) for p in (1, 2) for e in _EPSILONS),
        ],
        [
            f"At sensitivity {sensitivities[-1]} the staircase gains over geometric noise for |x| by "
            f"{listed(table[:, -1, 4], '.3f')} (epsilon {listed(_EPSILONS)}).",
            f"At sensitivity {_LARGE} the E|X| / sensitivity of the staircase equals that of the continuous "
            f"staircase, up to a relative difference of {deviation:.1g}.",
        ],
    )


def _geometric_check(epsilon: float, power: int) -> Check:
    what = f"E|X|^{power} at sensitivity 1 and epsilon {epsilon:g}, that of geometric noise"
    found = DiscreteStaircase.optimal(epsilon, 1, power=power).abs_moment(power)
    return formula(what, Geometric(epsilon).abs_moment(power), found, 1e-12)


def _gamma_check(epsilon: float, power: int) -> Check:
    """Return the check that r at a large sensitivity is within 1 of gamma times the sensitivity."""
    what = f"r / sensitivity at sensitivity {_LARGE} and epsilon {epsilon:g}, gamma"
    gamma = optimal_gamma(epsilon, power)
    return formula(what, gamma, optimal_r(epsilon, _LARGE, power) / _LARGE, 1.0 / (_LARGE * gamma))
