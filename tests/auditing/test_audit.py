"""`audit`: correct mechanisms raise no alarm, wrong ones do, and its bounds are exact."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from arcwise.analysis import Audit, audit
from arcwise.analysis.auditing.audit import binomial_bounds
from arcwise.analysis.auditing.calls import default_inputs, read_outputs
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.tasks import Group, Task
from tests.support.audited import RIGHT, UNIT, WRONG, Audited, naive_laplace, right, warner
from tests.support.commands import run

LEVEL = 1 - 1e-5
"""Each audit of a correct mechanism raises a false alarm with a probability of at most 1e-5."""

SOME = [0.0, 0.6180339887498949, 1.0]
"""Fewer inputs than an audit chooses by default, so that it makes fewer calls."""


def audited(case: Audited, samples: int, **options: object) -> Audit:
    mechanism, domain, epsilon, vectorised = case
    given: dict[str, object] = {"samples": samples, "level": LEVEL, "seed": 3, **options}
    return audit(mechanism, domain, epsilon, vectorised=vectorised, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gaussian", "task: stars", "two answers"])
def test_nothing_is_found_in_right_mechanisms(name: str) -> None:
    assert not audited(right()[name](), 20_000).above


@pytest.mark.slow
def test_nothing_is_found_in_all_right_mechanisms() -> None:
    """Audits with fixed seeds; each raises a false alarm with a probability of at most 1e-5."""
    cases = right()
    assert len(cases) == len(MECHANISMS) + len(RIGHT)
    above = {name: str(found) for name, case in cases.items() if (found := audited(case(), 60_000)).above}
    assert not above


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("inputs", [SOME, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def test_wrong_mechanisms_are_above_their_claims(name: str, inputs: list[float] | None) -> None:
    found = audited(WRONG[name], 300_000 if inputs is None else 120_000, inputs=inputs)
    assert found.above, str(found)
    assert str(found).splitlines()[-1].startswith("ABOVE THE CLAIM")
    if name in {"float Laplace", "wrong word", "sum of two"}:
        assert found.support_leaks
    if name in {"wrong scale", "wrong in one place"}:
        assert not found.support_leaks


def test_the_leak_of_floats_is_in_their_lowest_bits() -> None:
    """The noise is right over the reals, so ranges of its outputs do not contradict the claim."""
    found = audited(WRONG["float Laplace"], 60_000, inputs=SOME)
    kinds = {each.kind: each.epsilon for each in found.findings}
    assert kinds["low bits"] > 5.0
    assert kinds["range"] < 1.0
    assert found.support_leaks[0].kind.startswith("low bits")


def test_the_bound_nears_the_epsilon_of_an_optimal_mechanism() -> None:
    assert 0.85 < audited(Audited(warner, UNIT, 1.0), 60_000, inputs=SOME).epsilon < 1.0


def test_a_seed_repeats_an_audit() -> None:
    for mechanism in (naive_laplace, warner, Task("x", UNIT, 1.0)):
        case = Audited(mechanism, UNIT, 1.0, vectorised=mechanism is naive_laplace)
        first, second = (audited(case, 10_000, inputs=SOME) for _ in range(2))
        assert first == second


def test_progress_ends_with_all_calls() -> None:
    seen: list[float] = []
    found = audit(warner, UNIT, 1.0, samples=10_000, progress=lambda done, total, words: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == found.calls <= 10_000


@pytest.mark.parametrize(("count", "calls"), [(0, 10), (1, 10), (5, 10), (10, 10), (17, 100_000)])
def test_bounds_are_those_of_clopper_and_pearson(count: int, calls: int) -> None:
    low, high = binomial_bounds(count, calls, 1e-3)
    if count:
        assert binom.sf(count - 1, calls, low) == pytest.approx(1e-3)
    if count < calls:
        assert binom.cdf(count, calls, high) == pytest.approx(1e-3)
    assert (low == 0.0, high == 1.0) == (count == 0, count == calls)


def test_inputs_are_in_the_domain() -> None:
    for domain in (UNIT, Interval(-2.0, 8.0, step=0.5), Interval(0, 1000, step=1), Circle(360.0)):
        inputs = default_inputs(domain)
        assert 21 <= len(inputs) <= 26
        assert [domain.checked(value) for value in inputs] == sorted(set(inputs))
    assert default_inputs(Interval(0, 2, step=1)) == [0.0, 1.0, 2.0]


def test_what_is_read_of_an_output_does_not_depend_on_the_others() -> None:
    """Otherwise, all outputs of a chunk together would reveal more than one of them does."""
    outputs = [0.5, 3, "yes", (1, 2.5), (1, 2), None, -0.0, 0.0, math.nan, (0.5, "no"), True, 2**70, [1.0, 2]]
    alone = [read_outputs([each], 1) for each in outputs]
    together = read_outputs(outputs, len(outputs))
    assert together.keys.tolist() == [int(each.keys[0]) for each in alone]
    for component in range(2):
        expected = [float(each.component(component)[0]) for each in alone]
        np.testing.assert_array_equal(together.component(component), expected)
    assert len(set(together.keys.tolist())) == len(outputs)


def test_rows_of_arrays_are_read_as_tuples() -> None:
    rows = np.array([[0.1, 2.0], [3.0, -0.0]])
    given, listed = read_outputs(rows, 2), read_outputs([tuple(row) for row in rows.tolist()], 2)
    assert given.keys.tolist() == listed.keys.tolist()


def fails(value: float) -> float:
    raise KeyError("nothing")


@pytest.mark.parametrize(
    ("mechanism", "options", "words"),
    [
        (warner, {"domain": None}, "domain and epsilon must be given"),
        ("laplace", {}, "mechanism must be a function"),
        (lambda value: object(), {}, "got an object of type object"),
        (lambda value: value[:5], {"vectorised": True}, "one output per value: got 5 for "),
        (lambda value: 1.0, {"vectorised": True}, "got float for "),
        (fails, {}, "raised KeyError with the input 0.0"),
        (warner, {"samples": 10}, "samples must be"),
        (warner, {"level": 1.0}, "level must be"),
        (warner, {"inputs": [0.5, 0.5]}, "two different values"),
        (warner, {"seed": -1}, "seed must be"),
    ],
)
def test_errors_name_what_is_wrong(mechanism: object, options: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"domain": UNIT, "epsilon": 1.0, "samples": 10_000, **options}
    with pytest.raises(ParameterError, match=words):
        audit(mechanism, **given)  # type: ignore[arg-type]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_noise.py").write_text("def noisy(v, rng): return v + rng.laplace(0, 1, v.shape)\n")
    Task("heading", Circle(360), 1.0).save("heading.json")
    Group.share_budget("two", {"a": UNIT, "b": Circle(24)}, 2.0).save("two.json")
    claim = ("--epsilon", "1", "--domain", "0:1")
    few = ("--samples", "1e4", "--seed", "1")
    some = ("own_noise:noisy", *claim, "--vectorised", "--input", "0", "--input", "1", *few)
    heading = ("--task", "heading.json")
    # Arguments, exit status (1 means that epsilon is above the claim) and printed words.
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (some, 1, "support leak: the lowest bits of floats distinguish input"),
        *(
            ((*given, *few), 0, "nothing found: epsilon is at least")
            for given in (("laplace", *claim), heading, ("--group", "two.json"))
        ),
        ((*heading, "--epsilon", "0.1", *few), 1, "ABOVE THE CLAIM"),
        ((), 2, "give one of"),
        (("laplace",), 2, "give --epsilon and --domain"),
        (("laplas", *claim), 2, "neither MODULE:FUNCTION nor a mechanism"),
        (("own_noise:noise", *claim), 2, "has no 'noise'"),
        (("no_such_module:f", *claim), 2, "cannot import 'no_such_module'"),
        (("own_noise:noisy",), 2, "domain and epsilon must be given"),
        ((*heading, "--circle", "360"), 2, "leave out --domain and --circle"),
        (("--task", "two.json"), 2, "group"),
    ]
    for given, code, words in cases:
        random.seed(1)
        done = run("audit", *given)
        assert done.exit_code == code, done.output
        assert words in done.output
    done = run("audit", *some, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["above"]) == (1, True)
    assert found["support_leaks"][0] in found["findings"]
