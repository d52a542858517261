"""The audit: choose events on one half of the outputs, and bound epsilon by their counts in the other half.

For any event S and any two inputs, (epsilon, delta)-LDP implies P(S | x) <= e^epsilon P(S | x') + delta. So
``log((p - delta) / q)`` is a lower bound of epsilon, where p is a lower confidence bound of P(S | x) and q an
upper one of P(S | x'). Both bounds are those of Clopper and Pearson, which are exact at any count. The events
and the inputs are chosen on one half of the outputs and counted in the other half. So only the few chosen
events share the error: m events have 2 m bounds, each wrong with a probability of at most (1 - level) / (2
m).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from arcwise.analysis.auditing.calls import Outputs, claimed, default_inputs, joined, sampler
from arcwise.analysis.auditing.events import Event, sortings
from arcwise.analysis.auditing.result import Audit, Finding
from arcwise.checks import checked_bool, checked_integer, checked_real, explained
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import EPSILON_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from arcwise.analysis.auditing.calls import Sampler
    from arcwise.analysis.auditing.events import Sorting
    from arcwise.domains import Domain
    from arcwise.typing import FloatArray, IntArray

LEVEL = 0.999
SAMPLES = 1_000_000
_LEAST_SAMPLES = 10_000
_CHUNK = 20_000
"""Calls between two progress messages."""
_CAUTION = 3.0
"""Standard errors subtracted from a candidate's score, so that events favoured by chance are not chosen."""
_NEVER = "never"
_FREQUENT = 1e-3
"""A class that one input never gave looks like a leak if it has this share of another input's outputs."""


class _Candidate(NamedTuple):
    score: float
    event: Event
    input: float
    other: float


@explained
def audit(
    mechanism: object,
    domain: Domain | None = None,
    epsilon: float | None = None,
    *,
    delta: float | None = None,
    samples: int = SAMPLES,
    level: float = LEVEL,
    vectorised: bool = False,
    inputs: Sequence[float] | None = None,
    seed: int | None = None,
    progress: Callable[[float, float, str], None] | None = None,
) -> Audit:
    """Return a lower confidence bound on the epsilon of a mechanism, from its outputs alone.

    An audit can show that a mechanism does not satisfy its claim; it proves nothing if it finds nothing. It
    only detects frequent events: outputs with a probability below about 100 / samples are missed.

    Parameters
    ----------
    mechanism
        A function of one value that returns a float, an int, a string or a tuple of these; or a `Mechanism`,
        a `Task` or a `Group` of arcwise. All values of a group are at the same share of their domains. A
        parameter named ``rng`` gets a numpy generator.
    domain, epsilon, delta
        The claim: (epsilon, delta)-LDP for all values of the domain. The default is the claim of the
        mechanism, task or group. A function has no default, except 0 for delta.
    samples
        The number of calls, at least 10,000. Half of them serve to choose the events.
    level
        Confidence of the bound.
    vectorised
        Whether the function takes an array of n values, shape (n,), and returns n outputs: a sequence or an
        array of shape (n,) or (n, k).
    inputs
        Values to try; by default about 25 of the domain, including its ends and their neighbours.
    seed
        The seed that makes an audit repeatable. It works for arcwise's mechanisms, for functions with a
        parameter ``rng``, and for functions that draw from the generators of the modules `random` and
        `numpy.random`.
    progress
        A function that is called with the number of calls made, the number of all calls, and a description.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the function raises or returns another type.

    Examples
    --------
    >>> import numpy as np
    >>> from arcwise.domains import Interval
    >>> def noisy(values, rng):  # its scale is half of what epsilon 1 needs
    ...     return values + rng.laplace(0.0, 0.5, values.shape)
    >>> found = audit(noisy, Interval(0, 1), 1.0, samples=100_000, vectorised=True, seed=1)
    >>> found.above, found.epsilon > 1.5
    (True, True)
    """
    domain, claim, spent = claimed(mechanism, domain, epsilon, delta)
    claim = checked_real("epsilon", claim, least=0, most=EPSILON_MAX)
    spent = checked_real("delta", spent, least=0, below=1)
    samples = checked_integer("samples", samples, least=_LEAST_SAMPLES)
    level = checked_real("level", level, above=0, below=1)
    if seed is not None:
        seed = checked_integer("seed", seed, least=0)
    tried = default_inputs(domain) if inputs is None else sorted({domain.checked(value) for value in inputs})
    if len(tried) < 2:
        raise ParameterError(f"inputs must hold two different values or more, got {len(tried)}")
    sample = sampler(mechanism, vectorised=checked_bool("vectorised", vectorised), seed=seed)
    each = samples // 2 // len(tried)
    calls = _Calls(sample, samples, progress)
    chosen = _choose({value: calls.draw(value, each, "choosing events") for value in tried}, spent)
    places = sorted({place for candidate in chosen for place in (candidate.input, candidate.other)})
    each = (samples - samples // 2) // len(places)
    counted = {value: calls.draw(value, each, "counting them") for value in places}
    alpha = (1.0 - level) / (2 * len(chosen))
    findings = [_tested(candidate, counted, alpha, spent) for candidate in chosen]
    findings.sort(key=lambda finding: -finding.epsilon)
    return Audit(claim, spent, level, calls.done, len(tried), tuple(findings))


def binomial_bounds(count: int, calls: int, alpha: float) -> tuple[float, float]:
    """Return Clopper and Pearson's bounds of a probability, each wrong with at most probability `alpha`."""
    low = float(betaincinv(count, calls - count + 1, alpha)) if count else 0.0
    high = float(betaincinv(count + 1, calls - count, 1.0 - alpha)) if count < calls else 1.0
    return low, high


class _Calls:
    """Calls the mechanism in chunks and reports progress."""

    def __init__(
        self, sample: Sampler, total: int, progress: Callable[[float, float, str], None] | None
    ) -> None:
        self.sample, self.total, self.progress, self.done = sample, total, progress, 0

    def draw(self, value: float, count: int, words: str) -> Outputs:
        parts = []
        for start in range(0, count, _CHUNK):
            parts.append(self.sample(value, min(_CHUNK, count - start)))
            self.done += len(parts[-1].keys)
            if self.progress is not None:
                self.progress(self.done, self.total, words)
        return joined(parts)


def _choose(outputs: dict[float, Outputs], delta: float) -> list[_Candidate]:
    """Return the events that promise the largest bounds, with their inputs.

    There is an event of each kind, and also the most frequent event that the other input never gave.
    """
    best: dict[str, _Candidate] = {}
    values = list(outputs)
    for sorting in sortings(joined(list(outputs.values())), values):
        for kind, candidate in _candidates(sorting, outputs, values, delta):
            if kind not in best or candidate.score > best[kind].score:
                best[kind] = candidate
    return list({str(each.event) + f"{each.input!r} {each.other!r}": each for each in best.values()}.values())


def _candidates(
    sorting: Sorting, outputs: dict[float, Outputs], values: list[float], delta: float
) -> Iterable[tuple[str, _Candidate]]:
    """Yield the best events of each pair of inputs for a sorting, with the kind in which each competes."""
    labels = [sorting.classes(outputs[value]) for value in values]
    classes, place = np.unique(np.concatenate(labels), return_inverse=True)
    ends = np.cumsum([each.size for each in labels])[:-1]
    found = [
        np.array([np.bincount(half, minlength=classes.size) for half in np.array_split(part, 2)])
        for part in np.split(place.ravel(), ends)
    ]
    for counts, value in zip(found, values, strict=True):
        for others, other in zip(found, values, strict=True):
            if value != other and (sorting.centre is None or sorting.centre in {value, other}):
                score, members = _best_event(counts, others, delta)
                yield sorting.kind, _Candidate(score, Event(sorting, classes[members]), value, other)
                both = counts.sum(axis=0)
                never = np.flatnonzero((others.sum(axis=0) == 0) & (both >= both.sum() * _FREQUENT))
                if never.size:
                    share = float(both[never].sum() / both.sum())
                    yield _NEVER, _Candidate(share, Event(sorting, classes[never]), value, other)


def _best_event(counts: IntArray, others: IntArray, delta: float) -> tuple[float, IntArray]:
    """Return the set of classes with the largest cautious bound of epsilon, and that bound.

    The best sets consist of the classes with the largest ratios of both inputs' probabilities [Neyman and
    Pearson]. The ratios come from one half of these counts, shape (2, classes), and the other half judges the
    sets. Otherwise chance would choose.
    """
    there = np.flatnonzero(counts.any(axis=0))
    ratios = (counts[0, there] + 1.0) / (others[0, there] + 1.0)
    order = there[np.argsort(-ratios, kind="stable")]
    lower, _ = _cautious(counts[1, order].cumsum(), counts[1].sum())
    _, upper = _cautious(others[1, order].cumsum(), others[1].sum())
    scores = np.log(np.maximum(lower - delta, 1e-300)) - np.log(upper)
    end = int(np.argmax(scores))
    return float(scores[end]), order[: end + 1]


def _cautious(counts: IntArray, calls: Any) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's bounds, which are fast; the final tests use exact bounds."""
    share, square = counts / calls, _CAUTION**2 / calls
    centre = share + square / 2
    half = np.sqrt(square * (share * (1 - share) + square / 4))
    return (centre - half) / (1 + square), (centre + half) / (1 + square)


def _tested(candidate: _Candidate, counted: dict[float, Outputs], alpha: float, delta: float) -> Finding:
    """Return the finding from the counts of an event that was chosen on other outputs."""
    event = candidate.event
    here, there = (event.holds(counted[place]) for place in (candidate.input, candidate.other))
    count, other, calls = int(here.sum()), int(there.sum()), here.size
    low = binomial_bounds(count, calls, alpha)[0] - delta
    high = binomial_bounds(other, calls, alpha)[1]
    return Finding(
        kind=event.sorting.kind,
        event=str(event),
        input=candidate.input,
        other=candidate.other,
        count=count,
        other_count=other,
        calls=calls,
        epsilon=max(math.log(low / high), 0.0) if low > 0.0 else 0.0,
    )
