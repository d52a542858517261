"""Mechanisms to audit: calls of any function, of arcwise's mechanisms, tasks and groups, in one form."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.auditing.outputs import Outputs, read_outputs
from arcwise.checks import shown
from arcwise.domains import Interval
from arcwise.errors import ArcwiseError, ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.base import Mechanism
from arcwise.randomness import SYSTEM, InsecureSeededRandomness
from arcwise.tasks import Group, Task

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.randomness import Randomness

Sampler = Callable[[float, int], Outputs]
"""Takes an input and a number of calls."""

_STEPS = 16
"""Equal steps of the domain at which it is entered."""
_GOLDEN = 0.6180339887498949
_BETWEEN = 7
"""Inputs between these steps, whose doubles have all their bits."""
_CLOSE = 2.0**-20
"""Distance of the neighbours of the ends, as a share of the domain."""


def claimed(
    mechanism: object, domain: Domain | None, epsilon: float | None, delta: float | None
) -> tuple[Domain, float, float]:
    """Return the domain, epsilon and delta claimed for a mechanism; given arguments take precedence."""
    if isinstance(mechanism, Group):
        domain = Interval(0.0, 1.0) if domain is None else domain
        epsilon = mechanism.epsilon if epsilon is None else epsilon
        spent = sum(each.mechanism.certificate().delta for each in mechanism.tasks) / UNIT
        return domain, epsilon, spent if delta is None else delta
    own = mechanism.mechanism if isinstance(mechanism, Task) else mechanism
    if isinstance(own, Mechanism):
        domain = own.domain if domain is None else domain
        epsilon = own.epsilon if epsilon is None else epsilon
        return domain, epsilon, own.certificate().delta / UNIT if delta is None else delta
    if not callable(mechanism):
        raise ParameterError(
            f"mechanism must be a function, a Mechanism, a Task or a Group, got {shown(mechanism)}"
        )
    if domain is None or epsilon is None:
        raise ParameterError(
            "domain and epsilon must be given with a function, as its claim (for the command: --epsilon, and "
            "--domain or --circle)"
        )
    return domain, epsilon, 0.0 if delta is None else delta


def default_inputs(domain: Domain) -> list[float]:
    """Return the inputs of a domain: every value of a small lattice, else about 25 of the domain.

    Of a continuous domain these are its ends and their neighbours, equal steps, and places between them.
    """
    most = _STEPS + _BETWEEN + 2
    if domain.discrete:
        values = domain.values()
        places = np.linspace(0, values.size - 1, min(values.size, most)).astype(np.int64)
        return [float(each) for each in values[places]]
    start = domain.start
    end = start + domain.length
    units = np.arange(_STEPS + (not domain.circular)) / _STEPS
    units = np.concatenate([units, np.arange(1, _BETWEEN + 1) * _GOLDEN % 1.0, [_CLOSE, 1.0 - _CLOSE]])
    return sorted({float(each) for each in (start + domain.length * units).clip(start, end)})


def sampler(mechanism: object, *, vectorised: bool, seed: int | None) -> Sampler:
    """Return a mechanism as a function of an input and a number of calls, which returns the outputs."""
    source: Randomness = SYSTEM if seed is None else InsecureSeededRandomness(seed)
    if isinstance(mechanism, Group):
        return _group(mechanism, source)
    own = mechanism.mechanism if isinstance(mechanism, Task) else mechanism
    if isinstance(own, Mechanism):
        return _many(lambda values: own.randomize_many(values, randomness=source))
    function: Any = mechanism
    keywords: dict[str, Any] = {}
    if "rng" in _parameters(function):
        keywords["rng"] = np.random.default_rng(seed)
    elif seed is not None:
        random.seed(seed)
        np.random.seed(seed % 2**32)
    if vectorised:
        return _many(lambda values: function(values, **keywords))
    return _single(lambda value: function(value, **keywords))


def _many(function: Callable[[Any], Any]) -> Sampler:
    def sample(value: float, count: int) -> Outputs:
        return read_outputs(_guarded(function, value, np.full(count, value)), count)

    return sample


def _single(function: Callable[[float], Any]) -> Sampler:
    def sample(value: float, count: int) -> Outputs:
        return read_outputs(_guarded(lambda _: [function(value) for _ in range(count)], value, None), count)

    return sample


def _group(group: Group, source: Randomness) -> Sampler:
    """Return the reports of a group whose values all lie at the same share of their domains."""

    def one(unit: float) -> tuple[int, ...]:
        chosen = {task.name for task in group.choose(source)}
        return tuple(
            task.mechanism.randomize(_value(task.domain, unit), randomness=source)
            if task.name in chosen
            else -1
            for task in group.tasks
        )

    return _single(one)


def _value(domain: Domain, unit: float) -> float:
    """Return the value at a share of a domain, a value of its lattice where it has one."""
    if domain.discrete:
        values = domain.values()
        return float(values[round(unit * (values.size - 1))])
    return float(domain.from_unit(np.asarray(unit if not domain.circular else unit % 1.0)))


def _guarded(function: Callable[[Any], Any], value: float, argument: Any) -> Any:
    try:
        return function(argument)
    except ArcwiseError:
        raise
    except Exception as error:  # it is somebody's function, and may raise anything
        raise ParameterError(
            f"mechanism raised {type(error).__name__} with the input {value!r}: {error}"
        ) from error


def _parameters(function: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some builtins have no signature
        return frozenset()
