"""Computed tables of the documentation, which pages show between two comments.

    python -m benchmarks.studies.figures NAME
    python -m benchmarks.studies.figures distributions [--epsilon E]

Prints a Markdown table, the same on every machine. `tests/docs/test_figures.py` compares pages with it, and
`python -m tests.support.figures --write` rewrites the tables. `distributions` takes half a minute;
`--epsilon` prints only its rows of one epsilon.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.central_privacy.statement import central
from arcwise.analysis.planning import plan
from arcwise.analysis.threads import one_thread
from arcwise.digits import rounded_up
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.mechanisms.closed_forms.optimal import half_window
from arcwise.noise import IntegerNoise
from arcwise.papers.opm_distribution import EPSILONS, MECHANISMS, POPULATIONS, errors_of
from arcwise.tasks import Task
from benchmarks.studies.few_reports import Wanted, students_width, study
from benchmarks.studies.groups import rule_and_best

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.domains import Domain
    from arcwise.kernels.base import Kernel

__all__ = ["TABLES", "distributions", "main"]

_UNIT = Interval(0, 1)
_TURN = Circle(360)
_HALF_WIDTH = 0.01
_DEFAULT = "optimal-piecewise, inset"
_NORMAL = 1.959963984540054
_ROUNDS = (2.0, 3.5, 4.0, 4.9, 5.0, 6.0, 7.4, 8.0, 9.9, 12.0)


def zones() -> str:
    """Return the share of the domain in the clamp's end zones, and the least error that they cause."""
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        c = half_window(epsilon)
        rows.append([f"{epsilon:g}", f"{c:.1%}", f"{2 * c:.1%}", f"{1000 * c / 2:.1f}"])
    return _table(("epsilon", "each end zone", "both, of the domain", "error at the least"), rows)


def users() -> str:
    """Return the users that a mean needs for an interval of one hundredth of the range to either side."""
    error = _HALF_WIDTH / _NORMAL
    rows = [
        [f"{epsilon:g}", f"{plan(_UNIT, epsilon=epsilon, error=error, compare=False).reports:,}"]
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]
    return _table(("epsilon", "users"), [*rows, ["no privacy", f"{math.ceil(0.25 / error**2):,}"]])


def bounds() -> str:
    """Return the number of people that a mean needs on domains of several lengths."""
    rows = [
        [f"0 to {high}", f"{plan(Interval(0, high), epsilon=1.0, error=1.0, compare=False).reports:,}"]
        for high in (30, 60, 120, 600)
    ]
    people = "people for a mean with a standard error of 1 minute, at epsilon 1"
    return _table(("domain, minutes", people), rows)


def odds() -> str:
    """Return how much a report can change odds, and a belief that two values are equally likely."""
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        factor = math.exp(epsilon)
        sure = 100 * factor / (1 + factor)
        shown = f"{sure:.2f}" if sure > 99.5 else f"{sure:.0f}"
        rows.append([f"{epsilon:g}", f"{factor:,.0f}" if factor > 100 else f"{factor:.3g}", f"{shown} %"])
    sure_of_it = 'somebody who thought "fifty-fifty" between two values is at most so sure afterwards'
    return _table(("epsilon of one report", "odds change at most by a factor of", sure_of_it), rows)


def means() -> str:
    """Return the number of people that a mean needs by its standard error, as a share of the range."""
    return _planned(Interval(0, 100), {f"{share} %": f"{share}%" for share in (5, 2, 1, 0.5)})


def directions() -> str:
    """Return the number of people that a direction needs by its error, in hours of a clock."""
    return _planned(Circle(24), {"2 h": 2.0, "1 h": 1.0, "30 min": 0.5, "15 min": 0.25})


def _planned(domain: Domain, errors: dict[str, float | str]) -> str:
    rows = [
        [
            f"{epsilon:g}",
            *(
                f"{plan(domain, epsilon=epsilon, error=error, compare=False).reports:,}"
                for error in errors.values()
            ),
        ]
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]
    first, *others = errors
    return _table(("epsilon", f"error {first}", *others), rows)


def widths() -> str:
    """Return median widths of intervals for a mean at epsilon 12, in thousandths, and Student's."""
    rows = []
    for words, name in {
        "uniform": "uniform",
        "lognormal, most of it below 0.1": "lognormal, cut",
        "one value, 0.3137": "one value",
    }.items():
        row = [words]
        for reports in (30, 300, 10_000):
            wanted = Wanted(reports, 200, "population")
            (ours,) = study("mean", 12.0, wanted, [name])
            student = students_width(name, 12.0, wanted)
            row.append(f"{1000 * ours.width:.3g} ({1000 * student:.3g})")
        rows.append(row)
    return _table(("population", "epsilon 12, n = 30", "n = 300", "n = 10,000"), rows)


def errors() -> str:
    """Return the users that an interval needs at epsilon 1, by half-width, for means and directions."""
    rows = []
    for share in (0.1, 0.05, 0.02, 0.01):
        error = share / _NORMAL
        means = {row.label: row.reports for row in plan(_UNIT, epsilon=1.0, error=error).rows}
        best = plan(_UNIT, epsilon=1.0, error=error, compare=False).reports
        turn = plan(_TURN, epsilon=1.0, error=360 * share / _NORMAL, compare=False).reports
        rows.append(
            [f"± {share:.0%}", f"{means[_DEFAULT]:,}", f"{best:,}", f"± {360 * share:g}°", f"{turn:,}"]
        )
    headings = ("mean, of the range", "default mechanism", "goal mean", "direction", "default mechanism")
    return _table(headings, rows)


def averaging() -> str:
    """Return how near the average of fresh reports of one value comes to it, as a share of the range."""
    times = (1, 7, 30, 365)
    rows = []
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        deviation = math.sqrt(OptimalPiecewise(_UNIT, epsilon).variance(0.5))
        rows.append([f"{epsilon:g}", *(f"{deviation / math.sqrt(n):.1%}" for n in times)])
    return _table(("epsilon", *(f"{n} report{'s' * (n > 1)}" for n in times)), rows)


def groups() -> str:
    """Return how many of eight tasks a device should report, by the rule and at best, for means."""
    found = {f"{epsilon:g}": rule_and_best(_UNIT, 8, epsilon) for epsilon in _ROUNDS}
    return _table(
        ("epsilon of a round", *found),
        [
            ["rule, d = 8", *(str(rule) for rule, _, _ in found.values())],
            ["best, d = 8", *(str(best) for _, best, _ in found.values())],
            ["extra reports with the rule", *(f"{ratio - 1:.1%}" for _, _, ratio in found.values())],
        ],
    )


def _reports(epsilon: float) -> Kernel:
    """Return the kernel of a task without a given mechanism or number of nodes."""
    return Task("age", _UNIT, epsilon).mechanism.kernel


def central_epsilons() -> str:
    """Return how much one release of counts reveals at delta = 1e-8, by local epsilon and reports."""
    sizes = (10**3, 10**4, 10**5, 10**6, 10**7)
    rows = [
        [f"{epsilon:g}", *(rounded_up(central(_reports(epsilon), n, delta=1e-8).epsilon, 3) for n in sizes)]
        for epsilon in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
    ]
    return _table(("local epsilon", *(f"{n:,} reports" for n in sizes)), rows)


def central_releases() -> str:
    """Return how much several releases of 10,000 reports reveal together, at delta = 1e-6."""
    counts = (1, 7, 30, 365)
    rows = [
        [
            f"{epsilon:g}",
            *(
                rounded_up(central(_reports(epsilon), 10**4, delta=1e-6, releases=k).epsilon, 3)
                for k in counts
            ),
        ]
        for epsilon in (0.5, 1.0, 2.0, 3.0, 5.0)
    ]
    return _table(("local epsilon", *(f"{k} release{'s' * (k > 1)}" for k in counts)), rows)


def integer_noise() -> str:
    """Return the least mean of |X| on the integers under (epsilon, delta), and a closed form's excess."""
    sensitivities = (1, 2, 3, 5, 8, 13)
    rows = []
    for epsilon in (0.5, 1.0, 2.0):
        for delta in (1e-6, 1e-3, 0.05):
            cells = []
            for sensitivity in sensitivities:
                best = IntegerNoise.optimal(epsilon, delta, sensitivity).abs_moment(1)
                near = IntegerNoise.truncated_staircase(epsilon, delta, sensitivity).abs_moment(1)
                excess = f" (+{max(0.0, near / best - 1):.2%})" if sensitivity > 1 else ""
                cells.append(f"{best:.4g}{excess}")
            rows.append([f"{epsilon:g}", f"{delta:g}", *cells])
    return _table(("epsilon", "delta", *(f"sensitivity {each}" for each in sensitivities)), rows)


def traffic() -> str:
    """Return the number of reports and batches a second from a number of devices."""
    rows = []
    for power, daily in ((6, 10), (7, 10), (8, 10), (9, 10), (9, 86.4)):
        rate = 10**power * daily / 86_400
        rows.append([f"10^{power}", f"{daily:g}", *(f"{_rounded(rate / batch):,}" for batch in (1, 10, 100))])
    headings = (
        "devices",
        "reports a day each",
        "reports/s on average",
        "in batches of 10: batches/s",
        "of 100",
    )
    return _table(headings, rows)


def _rounded(rate: float) -> int:
    """Return a rate with three digits."""
    return round(float(f"{rate:.3g}"))


@one_thread()
def distributions(epsilons: Sequence[float] = EPSILONS) -> str:
    """Return the errors of `arcwise reproduce opm-distribution`, in thousandths of the range."""
    rows = []
    for epsilon in epsilons:
        errors = {name: errors_of(name, epsilon) for name in MECHANISMS}
        rows += [
            [
                f"{epsilon:g}",
                population,
                *(f"{1000 * float(np.mean(errors[name][population])):.1f}" for name in MECHANISMS),
            ]
            for population in POPULATIONS
        ]
    return _table(("epsilon", "population", *MECHANISMS), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


TABLES = {
    table.__name__: table
    for table in (
        zones,
        users,
        errors,
        bounds,
        odds,
        means,
        directions,
        averaging,
        widths,
        groups,
        traffic,
        central_epsilons,
        central_releases,
        integer_noise,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("table", choices=[*TABLES, "distributions"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    given = parser.parse_args()
    print(distributions(given.epsilon) if given.table == "distributions" else TABLES[given.table]())


if __name__ == "__main__":
    main()
