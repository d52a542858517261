"""Calls of an audited mechanism, which may be any function or one of arcwise's, and the outputs as arrays.

Every key and every number of an output is a function of this output alone, and does not depend on other
outputs. So counting keys or numbers later counts events of the outputs.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.checks import shown
from arcwise.domains import Interval
from arcwise.errors import ArcwiseError, ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.base import Mechanism
from arcwise.randomness import SYSTEM, InsecureSeededRandomness
from arcwise.tasks import Group, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.domains import Domain
    from arcwise.randomness import Randomness
    from arcwise.typing import FloatArray, IntArray

_STEPS = 16
"""Number of equal steps into which the inputs divide the domain."""
_GOLDEN = 0.6180339887498949
_BETWEEN = 7
"""Number of further inputs between these steps, chosen so that all bits of their doubles are in use."""
_CLOSE = 2.0**-20
"""Distance from the ends to their neighbours, as a share of the domain."""

_FLOATS = (float, np.floating)
_INTEGERS = (int, np.integer, np.bool_)
_ROWS = (tuple, list, np.ndarray)
_FACTOR = np.int64(-7046029254386353131)
"""2^64 divided by the golden ratio; it is odd, so that no bits are lost."""


class Outputs(NamedTuple):
    """The outputs of several calls of a mechanism."""

    raw: Sequence[Any]
    """The returned values, one for each call."""
    keys: IntArray
    """Numbers that are equal for equal outputs, shape (n,). Floats are equal if all their bits are equal."""
    numbers: tuple[FloatArray, ...]
    """The components of the outputs, each of shape (n,); NaN if a component is missing or not a number."""
    floats: tuple[bool, ...]
    """For each component, whether any of these outputs has a float in it."""

    def component(self, place: int) -> FloatArray:
        """Return a component, shape (n,)."""
        return self.numbers[place] if place < len(self.numbers) else np.full(self.keys.shape, np.nan)


class _Column(NamedTuple):
    """One component of several outputs."""

    keys: IntArray
    numbers: FloatArray
    floats: bool
    missing: Any = False
    """A mask of the outputs that lack this component, shape (n,)."""


def joined(parts: Sequence[Outputs]) -> Outputs:
    """Return the outputs of several calls, joined as those of one call."""
    if len(parts) == 1:
        return parts[0]
    places = range(max(len(part.numbers) for part in parts))
    return Outputs(
        [each for part in parts for each in part.raw],
        np.concatenate([part.keys for part in parts]),
        tuple(np.concatenate([part.component(place) for part in parts]) for place in places),
        tuple(any(part.floats[place : place + 1] == (True,) for part in parts) for place in places),
    )


def read_outputs(raw: Any, count: int) -> Outputs:
    """Return the outputs of `count` calls, from an array with the calls as first axis, or a sequence."""
    try:
        got = len(raw)
    except TypeError:
        raise ParameterError(
            f"mechanism must return one output per value: got {type(raw).__name__} for {count} values"
        ) from None
    if got != count:
        raise ParameterError(f"mechanism must return one output per value: got {got} for {count} values")
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "biuf":
        columns = [_numeric(column) for column in raw.reshape(count, -1).T]
    else:
        columns = _columns(list(raw))
    keys = columns[0].keys
    for each in columns[1:]:
        mixed = (keys ^ (keys >> np.int64(29))) * _FACTOR + each.keys  # overflow wraps: a hash of the row
        keys = np.where(each.missing, keys, mixed)
    return Outputs(raw, keys, tuple(each.numbers for each in columns), tuple(each.floats for each in columns))


def _columns(raw: list[Any]) -> list[_Column]:
    """Return the components of outputs that are not in one array."""
    if not any(isinstance(each, _ROWS) for each in raw):
        return [_column(raw)]
    rows = [tuple(each) if isinstance(each, _ROWS) else (each,) for each in raw]
    lengths = np.array([len(row) for row in rows])
    return [
        _column([row[place] if place < len(row) else None for row in rows])._replace(missing=lengths <= place)
        for place in range(max(1, lengths.max()))
    ]


def _column(values: list[Any]) -> _Column:
    """Return a component: quickly if all its values are floats, or all are integers; otherwise one by one."""
    kinds = set(map(type, values))
    if all(issubclass(kind, _FLOATS) for kind in kinds):
        return _numeric(np.array(values, np.float64))
    if all(issubclass(kind, _INTEGERS) for kind in kinds):
        try:
            return _numeric(np.array(values, np.int64))
        except OverflowError:  # an integer has more than 64 bits
            pass
    known = {(type(each), repr(each)): each for each in values}
    found = {name: _one(each) for name, each in known.items()}
    pairs = [found[type(each), repr(each)] for each in values]
    keys = np.array([key for key, _ in pairs], np.int64)
    return _Column(
        keys, np.array([number for _, number in pairs]), any(issubclass(kind, _FLOATS) for kind in kinds)
    )


def _numeric(values: np.ndarray[Any, Any]) -> _Column:
    floats = values.dtype.kind == "f"
    numbers = np.ascontiguousarray(values, np.float64)
    return _Column(numbers.view(np.int64) if floats else values.astype(np.int64), numbers, floats)


def _one(value: Any) -> tuple[int, float]:
    """Return the key and the number of one component."""
    if isinstance(value, _FLOATS):
        return int(np.float64(value).view(np.int64)), float(value)
    if isinstance(value, _INTEGERS) and -(2**63) <= value < 2**63:
        return int(value), float(value)
    text = f"{type(value).__name__}\0{_checked(value)!r}"
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True), np.nan


def _checked(value: Any) -> Any:
    """Return a component if its repr shows all of it, or raise `ParameterError`."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, _FLOATS + _INTEGERS + (str, bytes)):
        return value
    if isinstance(value, tuple | list):
        return [_checked(each) for each in value]
    raise ParameterError(
        "mechanism must return numbers, strings, bytes, None, or tuples of these; "
        f"got an object of type {type(value).__name__}"
    )


Sampler = Callable[[float, int], Outputs]
"""A function of an input and a number of calls."""


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
    """Return the inputs of a domain: every value of a small lattice, otherwise about 25 of the domain.

    On a continuous domain these are its ends and their neighbours, equal steps, and places between the steps.
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
    """Return a function that calls a mechanism with an input a number of times and returns the outputs."""
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
        try:
            raw = function(np.full(count, value))
        except ArcwiseError:
            raise
        except Exception as error:  # a user's function, which may raise anything
            raise ParameterError(
                f"mechanism raised {type(error).__name__} with the input {value!r}: {error}"
            ) from error
        return read_outputs(raw, count)

    return sample


def _single(function: Callable[[float], Any]) -> Sampler:
    return _many(lambda values: [function(value) for value in values.tolist()])


def _group(group: Group, source: Randomness) -> Sampler:
    """Return a sampler of a group's reports; all values lie at the same share of their domains."""

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
    """Return the value at a share of a domain, or of its lattice if it has one."""
    if domain.discrete:
        values = domain.values()
        return float(values[round(unit * (values.size - 1))])
    return float(domain.from_unit(np.asarray(unit if not domain.circular else unit % 1.0)))


def _parameters(function: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some builtins have no signature
        return frozenset()
