"""Populations written in a line: the meaning of the line, and the allowed forms that errors list."""

import numpy as np
import pytest
from scipy.stats import lognorm, pareto

from arcwise.analysis.simulate import (
    Atoms,
    Beta,
    Continuous,
    CutNormal,
    Histogram,
    Mixture,
    Population,
    VonMises,
    WrappedNormal,
    named_population,
    parse_population,
)
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import DomainError, ParameterError

LINE, TURN = Interval(-20, 180), Circle(360)
X = np.linspace(0, 1, 201)


@pytest.mark.parametrize(
    ("domain", "text", "expected"),
    [
        (LINE, "uniform", Histogram([0, 1], [1])),
        (LINE, " uniform : 0 , 1e+2 ", Histogram([0.1, 0.6], [1])),
        (LINE, "beta:2,5", Beta(2, 5)),
        (LINE, "normal:30,10", CutNormal(0.25, 0.05)),
        (LINE, "normal:-30,1e+1", CutNormal(-0.05, 0.05)),
        (LINE, "atom:180", Atoms([1.0])),
        (LINE, "two-bumps", named_population("two-bumps", circular=False)),
        (LINE, "0.3*atom:-20+0.2*atom:180+rest*uniform", named_population("atoms", circular=False)),
        (LINE, "1*beta:2,5", Beta(2, 5)),
        (LINE, "rest*beta:2,5", Beta(2, 5)),
        (LINE, "0.25*beta:2,5 + 0.75*beta25", Beta(2, 5)),
        (LINE, "0*atom:0 + rest*arcsine", Beta(0.5, 0.5)),
        (TURN, "uniform:90,180", Histogram([0.25, 0.5], [1])),
        (TURN, "uniform:315,45", Histogram([0, 0.125, 0.875, 1], [0.5, 0, 0.5])),
        (TURN, "uniform:-45,45", Histogram([0, 0.125, 0.875, 1], [0.5, 0, 0.5])),
        (TURN, "uniform:270,360", Histogram([0.75, 1], [1])),
        (TURN, "uniform:10,370", Histogram([0, 1], [1])),
        (TURN, "normal:-36,72", WrappedNormal(0.9, 0.2)),
        (TURN, "vonmises:0,2", named_population("von-mises", circular=True)),
        (TURN, "vonmises:450,3", VonMises(0.25, 3)),
        (TURN, "0.5*atom:0 + 0.5*atom:360", Atoms([0.0])),
        (LINE, "comb:-20,100,3", Atoms([0.0, 0.5, 1.0])),
        (TURN, "comb:45,90,4", Atoms([0.125, 0.375, 0.625, 0.875])),
        (TURN, "comb:270,90,2", Atoms([0.75, 0.0])),
        (LINE, "lognormal:30,0.8", Continuous(lognorm(0.8, scale=30), LINE)),
        (LINE, "pareto:10,1.5", Continuous(pareto(1.5, scale=10), LINE)),
        (LINE, "uniform@100", Atoms([0.1, 0.6], [0.35, 0.65])),
        (LINE, "uniform:0,100 @ 50", Atoms([0.1, 0.35, 0.6], [0.25, 0.5, 0.25])),
        (LINE, "atom:25@50", Atoms([0.35])),
        (TURN, "uniform@90", Atoms([0.0, 0.25, 0.5, 0.75])),
        (TURN, "uniform:0,90@90", Atoms([0.0, 0.25], [0.5, 0.5])),
        (TURN, "uniform:270,360@90", Atoms([0.0, 0.75], [0.5, 0.5])),
        (Circle(360, step=90), "vonmises:33.3,2", VonMises(33.3 / 360, 2)),
        (Circle(360, step=90), "normal:33.3,36", WrappedNormal(33.3 / 360, 0.1)),
        (Circle(360, step=90), "uniform:36,54", Histogram([0.1, 0.15], [1])),
        (Interval(0, 10, step=1), "uniform:0.5,9.5", Histogram([0.05, 0.95], [1])),
        (TURN, "0.5*atom:45@90 + 0.5*atom:315@90", Atoms([0.25, 0.0])),
        (
            TURN,
            "0.6*vonmises:0,4 + rest*vonmises:90,8",
            Mixture([0.6, 0.4], (VonMises(0, 4), VonMises(0.25, 8))),
        ),
    ],
)
def test_what_a_line_means(domain: Domain, text: str, expected: Population) -> None:
    population = parse_population(text, domain)
    np.testing.assert_allclose(population.cdf(X), expected.cdf(X), atol=1e-14)


@pytest.mark.parametrize(
    ("domain", "text", "message"),
    [
        (
            LINE,
            "",
            "a part must be one of uniform:LOW,HIGH, beta:A,B, normal:MEAN,SD, lognormal:MEDIAN,SIGMA, "
            "pareto:LEAST,SHAPE, atom:PLACE, comb:FIRST,STEP,COUNT, uniform",
        ),
        (LINE, "gauss:1,2", "arrival-delays; got 'gauss:1,2'"),
        (TURN, "beta25", "vonmises:MEAN,KAPPA.*von-mises, two-directions.*got 'beta25'"),
        (LINE, "two-bumps:3", "got 'two-bumps:3'"),
        (LINE, "normal:3", "normal must be written normal:MEAN,SD; got 'normal:3'"),
        (LINE, "normal", "normal must be written normal:MEAN,SD"),
        (LINE, "uniform:3", "uniform must be written uniform:LOW,HIGH"),
        (LINE, "atom:1,2", "atom must be written atom:PLACE"),
        (LINE, "normal:a,2", "normal:a,2 must have numbers, got 'a'"),
        (LINE, "normal:inf,2", "must have finite numbers, got 'inf'"),
        (LINE, "normal:1,", "must have numbers, got ''"),
        (LINE, "normal:30,-1", "sd of a normal"),
        (LINE, "atom:181", r"atom:PLACE must be in \[-20, 180\], got 181"),
        (LINE, "uniform:100,50", r"LOW < HIGH in \[-20, 180\], got 100,50"),
        (LINE, "vonmises:0,2", "for circles; on an interval there are uniform, beta, normal, lognormal"),
        (TURN, "beta:2,5", "for intervals; on a circle there are uniform, normal, vonmises, atom, comb"),
        (TURN, "lognormal:2,5", "for intervals"),
        (LINE, "lognormal:0,1", "MEDIAN and SIGMA must be positive, got 0 and 1"),
        (LINE, "pareto:1,-1", "LEAST and SHAPE must be positive"),
        (LINE, "pareto:500,1", "at least 0.001 of its mass"),
        (LINE, "comb:0,10", "comb must be written comb:FIRST,STEP,COUNT"),
        (LINE, "comb:0,10,2.5", "a whole count from 1 to 65536, got 10 and 2.5"),
        (LINE, "comb:0,0,2", "a positive step"),
        (LINE, "comb:0,10,20", r"stay in \[-20, 180\], got 0 to 190"),
        (LINE, "normal:30,10@", "a step after @ must have numbers, got ''"),
        (LINE, "normal:30,10@0", "a step after @ must be from 0.0030"),
        (LINE, "normal:30,10@201", "a step after @ must be from .* to 200, got 201"),
        (LINE, "uniform@50@25", "a step after @ must have numbers, got '50@25'"),
        (TURN, "normal:30,10@7", "must divide the period, 360, into whole steps; got 7"),
        (TURN, "uniform:0,400", "span at most 360, got 400"),
        (TURN, "uniform:5,5", "two different ends on the circle, got 5,5"),
        (TURN, "uniform:370,10", "two different ends on the circle, got 370,10"),
        (LINE, "uniform + atom:0", "several parts need a weight each"),
        (LINE, "0.5*uniform", "weights must sum to 1, got 0.5"),
        (LINE, "0.7*uniform + 0.7*atom:0", "weights must sum to 1, got 1.4"),
        (LINE, "1.2*uniform", "a weight must be from 0 to 1, or rest; got '1.2'"),
        (LINE, "0.7*uniform + 0.7*atom:0 + rest*atom:1", "weights must sum to at most 1, got 1.4"),
        (LINE, "rest*uniform + rest*atom:0", "rest must be the weight of one part only, got 2"),
        (LINE, "some*uniform", "a weight must have numbers, got 'some'"),
        (LINE, "0.5*uniform +", "several parts need a weight each"),
    ],
)
def test_errors_say_what_is_allowed(domain: Domain, text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_population(text, domain)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("vonmises:7,2", Circle(24, step=6)),
        ("normal:7,2", Circle(24, step=6)),
        ("uniform:7,20", Circle(24, step=6)),
        ("uniform:0.5,3.7", Interval(0, 10, step=1)),
        ("normal:3.3,1", Interval(0, 10, step=1)),
    ],
)
def test_the_numbers_of_a_law_need_not_be_values_of_a_lattice(text: str, domain: Domain) -> None:
    continuous = Circle(24) if isinstance(domain, Circle) else Interval(0, 10)
    at = np.linspace(0, 1, 11)
    expected = parse_population(text, continuous).cdf(at)
    assert parse_population(text, domain).cdf(at).tolist() == expected.tolist()
    with pytest.raises(DomainError, match="between two steps"):
        parse_population("atom:3.3", domain)
