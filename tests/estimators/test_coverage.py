"""The coverage study: the truths that it compares with, when it rejects, and a small seeded part of it.

Run the whole study with ``python -m benchmarks.studies.coverage``.
"""

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binom

from arcwise.analysis import Band
from arcwise.analysis.simulate import Atoms, Beta, Histogram, Mixture, node_law, parse_population
from arcwise.analysis.simulate.truth import Truth, on_lattice
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from benchmarks.studies import coverage_study
from benchmarks.studies.coverage import main
from benchmarks.studies.coverage_parts import MOST_MISSED, Answer, Place, case, holds_everywhere, survey
from benchmarks.studies.coverage_report import by_population, compared, missed, to_json
from benchmarks.studies.coverage_study import (
    ALPHA,
    EPSILONS,
    REPORTS,
    Cell,
    Study,
    design,
    rejected,
    run,
    wealth,
)
from benchmarks.studies.populations import Named, domain_of, random_population, read, wanted
from benchmarks.studies.truths import atoms
from tests.support.known import there

QUICK = ("beta25", "five-ratings", "eleven-ratings", "five-weekdays", "wind-in-tens")
"""A part of the list; lattices take a third of the time."""


def test_truths_of_a_smooth_population() -> None:
    beta = Truth(Beta(2, 5))
    assert beta.mean == pytest.approx(2 / 7, abs=1e-12)
    assert beta.variance == pytest.approx(10 / (49 * 8), abs=1e-10)
    assert beta.below(beta.quantile(0.3)) == pytest.approx(0.3, abs=1e-8)


def test_truths_are_strict_at_atoms() -> None:
    three = Truth(Atoms([0.2, 0.5, 0.8], [0.25, 0.25, 0.5]))
    assert three.variance == pytest.approx(0.25 * 0.04 + 0.25 * 0.25 + 0.5 * 0.64 - 0.575**2)
    assert three.share(0.0, 0.2) == pytest.approx(0.25)  # with the atom at its end
    assert three.share(0.2, 0.5) == pytest.approx(0.5)
    assert three.share(0.5, 0.5) == pytest.approx(0.25)
    assert three.share(0.21, 0.49) == pytest.approx(0.0)
    assert three.below(0.8, at=False) == pytest.approx(0.5)
    # All from 0.2 to 0.5 are quantiles of level 1/4; the smallest is the one.
    assert three.quantile(0.25) == pytest.approx(0.2)
    assert three.quantile(0.26) == pytest.approx(0.5)
    assert three.quantile(1.0) == pytest.approx(0.8)
    flat = Truth(Histogram([0.0, 0.3, 0.6, 1.0], [0.25, 0.0, 0.75]))
    assert flat.quantile(0.25) == pytest.approx(0.3, abs=1e-9)


def test_truths_of_a_circle() -> None:
    four = Truth(Atoms([0.0, 0.25, 0.5, 0.75]))
    assert four.arc(0.0, 0.25) == pytest.approx(0.5)
    assert four.arc(0.75, 1.0) == pytest.approx(0.5)  # its end is 0
    assert four.arc(0.9, 0.1) == pytest.approx(0.25)
    assert four.arc(-0.1, 0.1) == pytest.approx(0.25)
    assert four.arc(0.5, 1.25) == pytest.approx(1.0)
    assert four.arc(0.0, 1.0) == pytest.approx(1.0)
    assert four.quantile_above(0.0, 0.25) == pytest.approx(0.0)
    assert four.quantile_above(0.25, 0.3) == pytest.approx(0.5)  # an atom at the origin comes first
    assert four.quantile_above(0.26, 0.75) == pytest.approx(0.0)
    assert four.quantile_above(0.26, 1.0) == pytest.approx(0.25)


def test_atoms_are_found_in_mixtures() -> None:
    both = Mixture([0.5, 0.5], (Atoms([0.2, 0.4]), Mixture([0.2, 0.8], (Atoms([0.4]), Beta(1, 1)))))
    assert atoms(both) == pytest.approx({0.2: 0.25, 0.4: 0.35})


@pytest.mark.parametrize(
    ("domain", "line"),
    [
        (Interval(0, 10, step=1), "0.2*atom:0 + 0.3*normal:8,2 + rest*lognormal:3,1"),
        (Circle(24, step=1), "0.2*atom:8 + 0.3*uniform:0,3 + rest*vonmises:23.7,4"),
        (Circle(5, step=1), "0.5*uniform + rest*uniform@1"),
    ],
)
def test_values_of_a_lattice_have_the_law_of_its_nodes(domain: Interval | Circle, line: str) -> None:
    population = parse_population(line, domain)
    mechanism = Task("a", domain, 1.0).mechanism
    law = on_lattice(population, domain)
    assert isinstance(law, Atoms)
    shares = np.zeros(there(domain.size))
    shares[np.rint(law.places * (domain.lattice.steps if domain.lattice else 1)).astype(int)] = (
        law.probabilities
    )
    nodes = mechanism.place_nodes(np.arange(there(domain.size), dtype=np.float64)).astype(int)
    np.testing.assert_allclose(node_law(mechanism, population)[nodes], shares, atol=1e-12)


def test_the_band_has_to_hold_the_distribution_function_at_an_atom() -> None:
    one = case(Named("a", "0 to 1", "0.6*atom:0.3 + rest*uniform"), 1.0)
    at = (0.1, 0.3, 0.5)
    least, before, most = 0.04, 0.12, 0.72
    band = Band(at, (least, before, most), (least, most, 0.8), "")
    assert holds_everywhere(one, band)
    # Between P(X < x) and P(X <= x) is not enough, at the atom's own place and before it.
    assert not holds_everywhere(one, replace(band, high=(least, 0.4, 0.8)))
    assert not holds_everywhere(one, replace(band, at=(0.1, 0.299, 0.5), low=(least, 0.4, most)))
    assert not holds_everywhere(one, replace(band, at=(0.1, 0.299, 0.5), high=(least, 0.4, 0.71)))
    assert not holds_everywhere(one, replace(band, low=(0.06, before, most)))


@pytest.mark.parametrize("may_miss", [MOST_MISSED, 0.7, 0.28, 0.03, 0.0003])
def test_the_wealth_of_the_evidence_does_not_grow_while_coverage_is_enough(may_miss: float) -> None:
    missed_ = np.arange(31)
    wealths = np.array([wealth(30, int(k), may_miss) for k in missed_])
    assert np.all(np.diff(wealths) > 0)
    for rate in (may_miss, 0.7 * may_miss, 0.1 * may_miss):
        expected = float(binom.pmf(missed_, 30, rate) @ wealths)
        assert expected <= 1 + 1e-9
    assert float(binom.pmf(missed_, 30, may_miss) @ wealths) == pytest.approx(1)
    # After any history, one more survey is a fair bet.
    for surveys, wrong in ((10, 0), (10, 3), (500, 60)):
        after = may_miss * wealth(surveys + 1, wrong + 1, may_miss)
        after += (1 - may_miss) * wealth(surveys + 1, wrong, may_miss)
        assert after == pytest.approx(wealth(surveys, wrong, may_miss))


@pytest.mark.slow
def test_however_often_one_looks_few_true_hypotheses_are_rejected() -> None:
    # Exactly, over all runs of 300 surveys at the bound: the probability of ever reaching a wealth of 20.
    alive = np.array([1.0])
    reached = 0.0
    for surveys in range(1, 301):
        alive = np.append(alive, 0.0) * (1 - MOST_MISSED) + np.append(0.0, alive) * MOST_MISSED
        out = np.array([wealth(surveys, wrong) >= 20 for wrong in range(surveys + 1)])
        reached += float(alive[out].sum())
        alive[out] = 0.0
    assert 0.005 < reached <= 1 / 20


def study(rate: float, surveys: int, *, rough: bool = False, name: str = "mean") -> Study:
    """Return surveys that miss at a given rate, spread evenly."""
    one = Study("estimates", Place(Named("a", "0 to 1", "uniform", "smooth"), 1.0, 10_000))
    hits = [{(name, ""): Answer(int((k + 1) * rate) == int(k * rate), 0.5, rough)} for k in range(surveys)]
    one.add(hits)
    one.look()
    return one


def test_what_is_rejected_and_what_is_exempt() -> None:
    good, bad, rough = study(0.05, 400), study(0.2, 400), study(0.9, 400, rough=True)
    assert [found[0] for found in rejected([good, bad, rough])] == [bad]
    assert study(0.1, 40).doubtful() is False
    assert study(0.2, 40).doubtful() is True
    lines = missed([good, bad, rough])
    assert any(
        re.match(r"misses above 0.07: mean, a, epsilon 1, n = 10,000: held 3\d\d of 400", x) for x in lines
    )
    assert any(x.startswith("rough with many reports: mean") for x in lines)
    assert any(x.startswith("33.3% of the intervals") for x in lines)
    assert missed([good]) == []
    failing = study(0.05, 400)
    failing.add(["survey 400: ValueError: no"])
    assert missed([failing]) == [
        "1 of 401 surveys fail: a (0 to 1 | uniform), epsilon 1, n = 10,000: survey 400: ValueError: no"
    ]


def test_no_interval_is_no_evidence() -> None:
    cell = Cell()
    cell.add(Answer(None, float("nan"), rough=False))
    assert cell.counted == (0, 0)
    assert cell.wealth == pytest.approx(1)


def test_places_in_doubt_are_surveyed_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(part: str, place: Place, number: int, seed: int) -> dict[tuple[str, str], Answer]:
        del part, seed
        return {("mean", ""): Answer(number % 5 > 0 or place.epsilon > 1, 0.1, rough=False)}

    monkeypatch.setattr(coverage_study, "survey", fake)
    named = Named("a", "0 to 1", "uniform")
    told: list[tuple[int, int]] = []
    places = [("estimates", Place(named, epsilon, 100)) for epsilon in (1.0, 2.0)]
    doubtful, fine = run(places, first=40, most=100, progress=lambda *both: told.append(both))
    assert doubtful.surveys == 100
    assert fine.surveys == 40
    assert told[-1] == (140, 140)


def test_the_balanced_subset_meets_every_epsilon_and_every_number_of_reports() -> None:
    listed = read()
    places = design(listed)
    assert len(places) == 7 * len(listed)
    for named in listed:
        here = [place for place in places if place.population == named]
        assert sorted(place.epsilon for place in here) == list(EPSILONS)
        assert {place.reports for place in here} == set(REPORTS)
    for epsilon in EPSILONS:
        met = [place.reports for place in places if place.epsilon == epsilon]
        assert (
            len(met) // 6 <= min(map(met.count, REPORTS)) <= max(map(met.count, REPORTS)) <= len(met) // 6 + 1
        )


def test_the_list_has_what_fleets_send() -> None:
    listed = read()
    assert len({named.name for named in listed}) == len(listed)
    domains = [domain_of(named.domain) for named in listed]
    assert sum(isinstance(domain, Interval) for domain in domains) >= 24
    assert sum(isinstance(domain, Circle) for domain in domains) >= 12
    for kind in (Interval, Circle):
        sizes = {domain.size for domain in domains if isinstance(domain, kind)}
        assert {5, 11, 101, 256, 1000} <= sizes
    for named, domain in zip(listed, domains, strict=True):
        assert 0 <= parse_population(named.line, domain).mean() <= 1, named


@pytest.mark.parametrize("seed", range(60))
def test_random_populations_are_populations(seed: int) -> None:
    named = random_population(seed)
    assert named == random_population(seed)
    assert wanted([f"random:{seed}"]) == [named]
    domain = domain_of(named.domain)
    law = on_lattice(parse_population(named.line, domain), domain)
    assert law.cdf(np.ones(1))[0] == pytest.approx(1)


@pytest.mark.slow
def test_surveys_do_not_depend_on_the_number_of_jobs() -> None:
    places = [("estimates", Place(named, 2.0, 300)) for named in wanted(["five-ratings", "five-weekdays"])]
    one, two = (run(places, first=7, most=7, seed=4, jobs=jobs) for jobs in (1, 2))
    for left, right in zip(one, two, strict=True):
        assert left.place == right.place
        assert left.cells == right.cells
        assert not left.errors


@pytest.mark.slow
def test_quick_cells_cover() -> None:
    """If each interval held the truth in 0.93 of surveys, one seed in a hundred would fail."""
    places = [("estimates", Place(named, epsilon, 10_000)) for named in wanted(QUICK) for epsilon in (1.0,)]
    studies = run(places, first=6, most=6)
    assert not missed(studies)
    assert all(
        cell.told == 6 for each in studies for name, cell in each.cells.items() if "quantile" not in name[0]
    )
    printed = Console(width=200, file=StringIO())
    printed.print(by_population(studies))
    text = printed.file.getvalue()  # type: ignore[attr-defined]
    assert all(re.search(rf"^{name} ", text, re.MULTILINE) for name in QUICK)
    # With enough reports for everything, there are all kinds of intervals.
    kinds = {name for each in studies for name, _ in each.cells}
    for kind in (
        "mean",
        "variance",
        "standard deviation",
        "resultant length",
        "circular variance",
        "direction",
    ):
        assert {kind, f"{kind} of users"} <= kinds
    assert {"quantile", "share", "bin", "band", "mode", "difference of means", "circular quantile"} <= kinds
    assert sum(cell.coverage for each in studies for cell in each.cells.values()) > 0.95 * sum(
        len(each.cells) for each in studies
    )


@pytest.mark.parametrize(
    ("part", "interval", "may_miss"),
    [
        ("fit test", "fit test", 0.07),
        ("single values", "single values: mean", 0.07),
        ("strata", "strata: mean", 0.07),
        ("levels", "level 0.5: mean", 0.7),
    ],
)
def test_each_part_is_surveyed(part: str, interval: str, may_miss: float) -> None:
    (named,) = wanted(["five-ratings"])
    answer = survey(part, Place(named, 1.0, 300), 0, 1)[interval, ""]
    assert answer.held in {True, False}
    assert answer.may_miss == pytest.approx(may_miss)


def test_widths_are_compared_on_smooth_populations(tmp_path: Path) -> None:
    now = to_json([study(0.05, 40), study(0.05, 40, name="band")])
    before = json.loads(json.dumps(now))
    before["cells"][0]["width"] = 0.3
    (tmp_path / "before.json").write_text(json.dumps(before))
    _, lines = compared(now, tmp_path / "before.json")
    assert lines == ["the median width of mean grows to 1.667 times on smooth populations"]


def test_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cells.json"
    asked = (
        "--population five-ratings --epsilon 2 --reports 1e3 --interval band mean --surveys 3 --no-cpu --json"
    )
    monkeypatch.setattr("sys.argv", ["coverage.py", *asked.split(), str(file)])
    assert main() == 0
    cells = json.loads(file.read_text())["cells"]
    assert {cell["interval"] for cell in cells} == {"band", "mean", "mean of users"}
    assert all(cell["surveys"] == 3 and not cell["rejected"] for cell in cells)
    assert "worst population: five-ratings; 0 bounds missed" in capsys.readouterr().out


assert ALPHA == 0.01
