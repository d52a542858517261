"""Geng and Viswanath, section VI: the staircase on the integers. Figure 5, the optimal r, Theorem 10."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from arcwise.analysis.charts.look import COLOURS
from arcwise.noise import DiscreteStaircase, Geometric, Staircase, optimal_gamma, optimal_r
from arcwise.papers.base import Check, Outcome, Progress, Reproduction, Table
from arcwise.papers.pictures import Panel, Picture, look, mark, note

_SOURCE = "Geng, Viswanath (arXiv 1212.1186)"


def _mass(_full: bool, _progress: Progress) -> Outcome:
    noise, geometric = DiscreteStaircase.optimal(1.0, 5), Geometric(1.0, 5)
    n = np.arange(-16, 17)

    bars = {"width": 0.7, "color": COLOURS[5], "edgecolor": COLOURS[0], "linewidth": 0.6}
    panel = Panel(
        [
            mark("bar", n, noise.pmf(n), label="staircase", **bars),
            mark("plot", n, geometric.pmf(n), "o", color=COLOURS[1], markersize=3.5, label="geometric"),
        ],
        x="$n$",
        y="$P(X = n)$",
        title=rf"$\varepsilon = 1$, $\Delta = 5$, $r = {noise.r}$",
        xlim=(-16.5, 16.5),
    )
    return Outcome(
        {"": Table.of(n=n, staircase_mass=noise.pmf(n), geometric_mass=geometric.pmf(n))},
        Picture([[panel]]),
        [],
        [
            f"At sensitivity 5 and epsilon 1 the best r for |x| is {noise.r}; the staircase has E|X| = "
            f"{noise.abs_moment(1):.4f}, geometric noise {geometric.abs_moment(1):.4f}."
        ],
    )


def _optimal_r(full: bool, progress: Progress) -> Outcome:
    epsilons, fixed = (0.5, 1.0, 2.0, 4.0), (1, 2, 5, 20)
    most = 1000 if full else 200
    sensitivities = np.unique(np.rint(np.geomspace(1, most, 160)).astype(int))
    rows, steps = [], len(epsilons) + len(fixed)
    for done, e in enumerate(epsilons):
        progress(done, steps)
        for s in sensitivities.tolist():
            best = [DiscreteStaircase.optimal(e, s, power=p) for p in (1, 2)]
            geometric = Geometric(e, s)
            gains = [geometric.abs_moment(p) / best[p - 1].abs_moment(p) for p in (1, 2)]
            rows.append((e, s, best[0].r, best[1].r, *gains))
    table = np.array(rows).reshape(len(epsilons), len(sensitivities), -1)
    fine = np.linspace(0.02, 8.0, 267)
    over_epsilon = {}
    for done, s in enumerate(fixed):
        progress(len(epsilons) + done, steps)
        over_epsilon[s] = np.array([optimal_r(e, s) for e in fine])
    progress(steps, steps)
    checks = [
        Check(
            f"E|X|^{p} at sensitivity 1 and epsilon {e:g}, that of geometric noise",
            Geometric(e).abs_moment(p),
            DiscreteStaircase.optimal(e, 1, power=p).abs_moment(p),
            tolerance=1e-12,
            formula=True,
        )
        for p in (1, 2)
        for e in epsilons
    ]
    large = 4096
    checks += [
        # r is a whole number: r / sensitivity is within 1 / sensitivity of gamma.
        Check(
            f"r / sensitivity at sensitivity {large} and epsilon {e:g}, gamma",
            optimal_gamma(e, p),
            optimal_r(e, large, p) / large,
            tolerance=1.0 / (large * optimal_gamma(e, p)),
            formula=True,
        )
        for p in (1, 2)
        for e in epsilons
    ]

    left, most_shown = [], sensitivities[-1]
    for k, e in enumerate(epsilons):
        gamma = optimal_gamma(e)
        left += [
            mark(
                "semilogx",
                sensitivities,
                table[k, :, 2] / sensitivities,
                "os^v"[k],
                color=COLOURS[k],
                markersize=2.4,
            ),
            mark("axhline", gamma, linewidth=1.0, **look(k, 1)),
            # Outside the frame, where the line ends.
            note(
                most_shown,
                gamma,
                rf"$\varepsilon$ = {e:g}",
                COLOURS[k],
                offset=(4, 0),
                va="center",
                annotation_clip=False,
            ),
        ]
    right = [
        mark("step", fine, over_epsilon[s], where="mid", label=rf"$\Delta$ = {s}", **look(k, k))
        for k, s in enumerate(fixed)
    ]
    panels = [
        Panel(
            left,
            x=r"sensitivity $\Delta$",
            y=r"$r\,/\,\Delta$, dashed: $\gamma$",
            title="optimal for $|x|$",
            xlim=(1, most_shown),
            ylim=(0.0, 1.02),
            plain="x",
        ),
        Panel(
            right, x=r"$\varepsilon$", y="$r$", title="optimal for $|x|$", xlim=(0.0, 8.0), ylim=(0.0, 10.5)
        ),
    ]
    last_gains = table[:, -1, 4]
    continuous = [Staircase.optimal(e).abs_moment(1) for e in epsilons]
    discrete = [DiscreteStaircase.optimal(e, large).abs_moment(1) / large for e in epsilons]
    return Outcome(
        {
            "over-sensitivity": Table(("epsilon", "sensitivity", "r_1", "r_2", "gain_1", "gain_2"), rows),
            "over-epsilon": Table.of(
                epsilon=fine, **{f"r_at_sensitivity_{s}": r for s, r in over_epsilon.items()}
            ),
        },
        Picture([panels], (7.4, 3.4)),
        checks,
        [
            f"At sensitivity {sensitivities[-1]} the staircase gains over geometric noise for |x| by "
            + ", ".join(f"{gain:.3f}" for gain in last_gains)
            + f" (epsilon {', '.join(f'{e:g}' for e in epsilons)}).",
            f"At sensitivity {large} its E|X| / sensitivity is that of the continuous staircase but for "
            f"{max(abs(a / b - 1.0) for a, b in zip(discrete, continuous, strict=True)):.1g} relative.",
        ],
    )


_VALUES = ((1.0, 2), (2.0, 3), (3.0, 2))
_PERIODS = (1, 2, 3, 5)
_CYCLE = 48
"""Outputs lie on a cycle of so many integers, a program of finite size: e^-8 is left of a tail at most."""


def _least_of_values(epsilon: float, sensitivity: int, period: int) -> float:
    """Return the least worst-case ``E|noise|`` of noise that may depend on the value, with a period.

    A linear program over the masses P_i(n) of the noise n at the values i, i + period, ...; values i and
    i + d with ``|d|`` up to the sensitivity have ``P_i(n) <= e^epsilon P_(i+d)(n - d)``.
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


def _of_values(_full: bool, progress: Progress) -> Outcome:
    rows: list[tuple[float, ...]] = []
    checks, steps = [], len(_VALUES) * len(_PERIODS)
    for epsilon, sensitivity in _VALUES:
        common = 0.0
        staircase = DiscreteStaircase.optimal(epsilon, sensitivity).abs_moment(1)
        for period in _PERIODS:
            progress(len(rows), steps)
            least = _least_of_values(epsilon, sensitivity, period)
            common = least if period == 1 else common
            rows.append((epsilon, sensitivity, period, least, staircase))
            what = f"least worst E|X| of noise with period {period}, epsilon {epsilon:g}, D = {sensitivity}"
            checks.append(
                Check(f"{what}; of common noise", common, least, 1e-7, formula=True)
                if period > 1
                else Check(f"{what}; of the staircase", staircase, least, 1e-3, formula=True)
            )
    progress(steps, steps)
    marks = [
        mark("plot", _PERIODS, [row[3] for row in rows if row[:2] == case], "o-", color=COLOURS[k],
             label=rf"$\varepsilon$ = {case[0]:g}, $\Delta$ = {case[1]}")
        for k, case in enumerate(_VALUES)
    ]  # fmt: skip
    columns = ("epsilon", "sensitivity", "period (integers)", "least (integers)", "staircase (integers)")
    panel = Panel(marks, x="period of the noise over the values", y=r"least worst $E|X|$", ylim=(0.0, None))
    return Outcome(
        {"": Table(columns, rows)},
        Picture([[panel]]),
        checks,
        [
            "Noise that depends on the value, with any of these periods, has no smaller worst case than "
            "noise that does not: turned by every value and averaged, it has one law, no worse (Theorem "
            "10). With steps of the reals as integers this is Theorem 2."
        ],
    )


REPRODUCTIONS = (
    Reproduction(
        "staircase-values",
        f"{_SOURCE}, Theorems 2 and 10",
        "noise that depends on the value beside noise that does not, by linear programs",
        _of_values,
    ),
    Reproduction(
        "staircase-integers-mass",
        f"{_SOURCE}, Figure 5",
        "the mass function of the staircase on the integers",
        _mass,
    ),
    Reproduction(
        "staircase-integers-r",
        f"{_SOURCE}, Theorems 11 and 12",
        "optimal r over sensitivity and epsilon",
        _optimal_r,
    ),
)
