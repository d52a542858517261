"""The numbers of a privacy report: how often a device reports, and how sure an observer can become."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.charts import Axis, Chart, Layer
from arcwise.digits import duration, written
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from arcwise.tasks import Charge, Group, Task
    from arcwise.tasks.caps import Caps

PRIORS = (0.01, 0.1, 0.5)


class Limit(NamedTuple):
    """A cap on answers, and the epsilon and delta that `most` answers spend.

    `period` is "in all, for ever" or "within any 24 hours", and `most` is at least 1.
    """

    period: str
    most: int
    epsilon: float
    delta: float


def limits(caps: Caps, charge: Charge) -> list[Limit]:
    """Return what each cap comes to: for ever, then within the window; without caps nothing."""
    window = duration(caps.window).removeprefix("1 ")  # "within any day"
    pairs = (
        ("in all, for ever", caps.lifetime_micro, caps.lifetime_delta_units),
        (f"within any {window}", caps.rolling_micro, caps.rolling_delta_units),
    )
    found = []
    for period, micro, units in pairs:
        allowed = [
            cap // cost
            for cap, cost in ((micro, charge.micro_epsilon), (units, charge.delta_units))
            if cap is not None and cost
        ]
        if allowed:
            most = min(allowed)
            spent = most * charge.micro_epsilon / 1e6
            found.append(Limit(period, most, spent, most * charge.delta_units / UNIT))
    return found


class Belief(NamedTuple):
    """How sure an observer can become: before, and after so much epsilon, as texts."""

    before: str
    after: tuple[str, ...]


def beliefs(epsilons: list[float]) -> list[Belief]:
    """Return the largest posterior probability of a value after each epsilon, for a few prior ones.

    Reports multiply the odds by at most e^epsilon: p becomes ``p e^eps / (1 - p + p e^eps)``.
    """
    return [
        Belief(percent(prior), tuple(percent(_posterior(prior, epsilon)) for epsilon in epsilons))
        for prior in PRIORS
    ]


def _posterior(prior: float, epsilon: float) -> float:
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up: a bound stays one.

    Examples
    --------
    >>> percent(0.5), percent(0.73105858), percent(0.99999999)
    ('50 %', '73.2 %', 'more than 99.9 %')
    """
    up = math.ceil(share * 1000 - 1e-9) / 10
    return "more than 99.9 %" if up >= 100 else f"{up:g} %"


def output_chart(task: Task) -> Chart:
    """Return the probabilities of all codes for two values far apart, exactly as a device draws them."""
    kernel, domain = task.mechanism.kernel, task.domain
    nodes = (kernel.nodes // 4, 3 * kernel.nodes // 4)
    if domain.circular:
        units = [node / kernel.nodes for node in nodes]
    else:
        units = task.mechanism.node_units(np.array(nodes, np.float64)).tolist()
    values = [written(float(domain.from_unit(np.float64(unit))), digits=3)[0] for unit in units]
    unit = "" if task.unit is None else f" {task.unit}"
    rows = [[weight * 100 / UNIT for weight in kernel.row(node)] for node in nodes]
    points = [tuple((j, j + 1, y) for j, y in enumerate(row)) for row in rows]
    names = [f"value {value}{unit}" for value in values]
    layers = (Layer("cells", "fit", points[0], names[0]), Layer("outline", "mark", points[1], names[1]))
    table = tuple((str(j), *(f"{row[j]:.3g} %" for row in rows)) for j in range(kernel.codes))
    return Chart(
        "density",
        task.name,
        "What a device sends, for two values",
        f"Probability of each of the {kernel.codes} answers where the value is {values[0]}{unit} and where "
        f"it is {values[1]}{unit}: hardly any answer tells which of the two it was.",
        (("answer", *names), table),
        Axis("answer that is sent (a code)", 0.0, float(kernel.codes)),
        Axis("probability in percent", 0.0, 1.1 * max(map(max, rows))),
        layers,
    )


def most_revealing(group: Group) -> Task:
    """Return the task of a group whose reports spend most: its picture is drawn."""
    return max(group.tasks, key=lambda task: task.epsilon)
