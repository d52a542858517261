"""One row of a comparison: the measures of a mechanism, and the inputs for which they are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.simulate.laws import Atoms
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.moments import laws
from arcwise.tasks import Task
from arcwise.wire import code_width

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.mechanisms import Mechanism
    from arcwise.typing import FloatArray

_STEPS = 1024
_BLOCK = 1 << 20
"""The most probabilities in memory together."""

_MOST = 1 << 27
"""The most probabilities of one mechanism in total. Finer grids leave out some quarters between nodes."""


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism at one epsilon: a row of the table.

    Errors are in the unit of the domain, or its square. The prefix ``worst_`` means the worst of all inputs,
    and ``mean_`` the average over the population's values. Without a population, the average is over uniform
    inputs on the domain, or over the domain's values if it has a step. On a circle distances are circular.

    - "absolute" is ``E|decode - x|``. "squared" is ``E(decode - x)^2``, which is the variance if the
      mechanism is unbiased.
    - "truncated" is ``E|y - x|`` for the decoded report y moved into the domain: the error of a single
      answer. On a circle it equals "absolute".
    - `worst_variance` is the largest ``Var(decode)``, and `bias` the largest ``|E decode - x|``. Both are NaN
      on a circle.
    - `attenuation` is rho_1 on a circle, the length of the mean vector of the decoded reports. If it is
      small, a mean direction needs many reports. It is NaN on an interval.
    - `unbiased` means that the expectation of the decoded report is the input, for every input.
    - `label` is the mechanism's name, with the properties that distinguish this member of its family; `name`
      and `version` are as in the registry. `nodes` and `codes` are N and K.
    - `report_bytes` is the size of one report on the wire, and `task_bytes` that of the task with its kernel.
    - `epsilon` and `delta` are those of the certificate; delta is exact, in units of 2^-64, and 0 for pure
      epsilon-LDP.
    - `spent_epsilon` is the logarithm of the largest ratio of two weights, infinite if a weight is 0.
    """

    label: str
    name: str
    version: int
    placement: str
    unbiased: bool
    worst_absolute: float
    mean_absolute: float
    worst_squared: float
    mean_squared: float
    worst_variance: float
    worst_truncated: float
    mean_truncated: float
    bias: float
    attenuation: float
    nodes: int
    codes: int
    report_bytes: int
    task_bytes: int
    epsilon: float
    delta: int
    spent_epsilon: float

    @property
    def delta_probability(self) -> float:
        """The certificate's delta as a probability (a float, rounded)."""
        return self.delta / UNIT


def measure(mechanism: Mechanism, label: str, population: Population | None = None) -> MechanismRow:
    """Return the row of a mechanism; averages are over a population on the unit domain or uniform inputs."""
    absolute, squared, truncated, mean, spread = _moments(mechanism, _grid(mechanism))
    if population is None:
        average = [float(each.mean()) for each in _moments(mechanism, _uniform(mechanism))[:3]]
    else:
        units, mass = _values(mechanism, population)
        average = [float(mass @ each) for each in _moments(mechanism, units)[:3]]
    length = mechanism.domain.length
    area = length * length  # length**2 raises an error on overflow, but a product becomes infinite
    certificate = mechanism.certificate()
    circular = mechanism.domain.circular
    kernel = mechanism.kernel
    # rho_1, the length of the mean vector of the decoded reports from one node
    turns = np.exp(2j * np.pi * mechanism.code_units())
    attenuation = float(np.abs(laws(mechanism, np.zeros(1))[0] @ turns)) if circular else np.nan
    task = Task("compared", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
    return MechanismRow(
        label=label,
        name=mechanism.name,
        version=mechanism.version,
        placement=mechanism.placement,
        unbiased=mechanism.unbiased,
        worst_absolute=length * float(absolute.max()),
        mean_absolute=length * average[0],
        worst_squared=area * float(squared.max()),
        mean_squared=area * average[1],
        worst_variance=np.nan if circular else area * float(spread.max()),
        worst_truncated=length * float(truncated.max()),
        mean_truncated=length * average[2],
        bias=np.nan if circular else length * float(np.abs(mean).max()),
        attenuation=attenuation,
        nodes=kernel.nodes,
        codes=kernel.codes,
        report_bytes=code_width(kernel.codes),
        task_bytes=len(task.to_bytes()),
        epsilon=certificate.epsilon,
        delta=certificate.delta,
        spent_epsilon=certificate.spent_epsilon,
    )


def _grid(mechanism: Mechanism) -> FloatArray:
    """Return inputs on the unit domain: every node, the quarters between nodes and both ends.

    With more than about 5,000 nodes, only every n-th of these inputs is used, for an odd n, so that nodes,
    quarters and halves occur in turn. On a lattice without rounding, the inputs are the values.
    """
    if mechanism.lattice is not None and not mechanism.rounds:
        return np.arange(mechanism.lattice.size) / mechanism.lattice.steps
    nodes = mechanism.kernel.nodes
    if mechanism.domain.circular:
        return np.linspace(0.0, 1.0, _STEPS // 16 + 1) / nodes
    apart = 2 * (4 * nodes * mechanism.kernel.codes // _MOST // 2) + 1  # odd: every kind occurs in turn
    inside = mechanism.node_units(np.arange(0, 4 * nodes - 3, apart) / 4.0)
    return np.unique(np.clip(np.concatenate([inside, np.linspace(0.0, 1.0, _STEPS + 1)]), 0.0, 1.0))


def _uniform(mechanism: Mechanism) -> FloatArray:
    """Return the inputs to average over for a uniform population.

    The inputs are the midpoints of many equal parts of the domain (on a circle, of one step between nodes).
    On a lattice without rounding, the inputs are the values.
    """
    if mechanism.lattice is not None and not mechanism.rounds:
        return _grid(mechanism)
    parts = _STEPS // 16 if mechanism.domain.circular else 2 * _STEPS
    units = (np.arange(parts) + 0.5) / parts
    return units / mechanism.kernel.nodes if mechanism.domain.circular else units


def _values(mechanism: Mechanism, population: Population) -> tuple[FloatArray, FloatArray]:
    """Return values that represent a population, and their shares.

    For atoms, the values are exact, unless there are too many atoms for the grid. Other populations are
    represented by a few thousand equally spaced quantiles.
    """
    most = max(2 * _STEPS, _MOST // mechanism.kernel.codes)
    if isinstance(population, Atoms) and population.places.size <= most:
        units, mass = population.places, population.probabilities
    else:
        parts = most if isinstance(population, Atoms) else 2 * _STEPS
        units, mass = population.quantiles((np.arange(parts) + 0.5) / parts), np.full(parts, 1.0 / parts)
    lattice = mechanism.lattice
    if lattice is not None and not mechanism.rounds:  # devices hold the nearest values
        units = np.floor(units * lattice.steps + 0.5) % lattice.size / lattice.steps
    return units, mass


def _moments(mechanism: Mechanism, units: FloatArray) -> list[FloatArray]:
    """Return for each input x on the unit domain: E|y-x|, E(y-x)^2, E|truncated y - x|, bias, variance."""
    decoded = mechanism.code_units()
    circular = mechanism.domain.circular
    parts = []
    size = max(1, _BLOCK // mechanism.kernel.codes)
    for start in range(0, units.size, size):
        x = units[start : start + size]
        law = laws(mechanism, x)
        away = decoded - x[:, None]
        if circular:
            away = (away + 0.5) % 1.0 - 0.5
            cut = np.abs(away)
        else:
            cut = np.abs(np.clip(decoded, 0.0, 1.0) - x[:, None])
        absolute, squared, truncated, bias = (
            np.einsum("ij,ij->i", law, values) for values in (np.abs(away), away**2, cut, away)
        )
        spread = np.einsum("ij,ij->i", law, (away - bias[:, None]) ** 2)
        parts.append((absolute, squared, truncated, bias, spread))
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
