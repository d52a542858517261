"""The privacy report of a task or a group: one page that a privacy officer can read and sign.

The numbers are computed here; the words are in `privacy.html`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.charts import Axis, Chart, Layer, stylesheet, svg
from arcwise.cli.describing import short_epoch
from arcwise.cli.terminal import rendered
from arcwise.digits import duration, rounded_up, written
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.tasks import Group, Task
from arcwise.tasks.fields import SCHEMA_VERSION
from arcwise.version import __version__

if TYPE_CHECKING:
    from arcwise.tasks import Charge
    from arcwise.tasks.caps import Caps

PRIORS = (0.01, 0.1, 0.5)
_PERIODS = {3600: "the hour", 86_400: "the day", 604_800: "the week"}


def privacy_page(asked: Task | Group, file: str) -> str:
    """Return the privacy page of a task or group as HTML, without scripts and external content.

    `file` is the name of its file, which the page quotes in the command to check it.
    """
    group = asked if isinstance(asked, Group) else None
    tasks = [asked] if isinstance(asked, Task) else list(asked.tasks)
    shown = max(tasks, key=lambda task: task.epsilon)  # the task whose reports reveal most
    once = "report" if group is None else "round"
    epsilon, delta = asked.epsilon, asked.charge.delta_units
    capped = limits(asked.caps, asked.charge)
    several = [limit for limit in capped if limit.most > 1]
    spent = [epsilon, *(limit.most * epsilon for limit in several)]
    return rendered(
        Path(__file__).with_name("privacy.html"),
        asked=asked,
        kind="task" if group is None else "group",
        once=once,
        file=file,
        tasks=[_task(task) for task in tasks],
        short_epoch=short_epoch(*tasks),
        sample=None if group is None else group.sample,
        epsilon=rounded_up(epsilon, 7),
        factor=f"{float(rounded_up(math.exp(epsilon), 3)):,.10g}",
        delta=delta,
        delta_words=rounded_up(delta / UNIT, 3),
        limits=[
            {
                "period": limit.period,
                "most": f"{limit.most:,} {once}{'s' if limit.most > 1 else ''}",
                "epsilon": rounded_up(limit.epsilon, 7),
                "delta": rounded_up(limit.delta, 3),
            }
            for limit in capped
        ],
        columns=[f"one {once}", *(f"{limit.most:,} {once}s, {limit.period}" for limit in several)],
        beliefs=beliefs(spent),
        spent_most=max(spent),
        picture=svg(output_chart(shown), ident="output", script=False),
        shown=shown,
        shown_epsilon=rounded_up(shown.epsilon, 4),
        shown_delta=shown.charge.delta_units,
        charts=stylesheet(),
        schema=SCHEMA_VERSION,
        version=__version__,
    )


def _task(task: Task) -> dict[str, Any]:
    """Return the values that the page shows about a task."""
    certificate, kernel = task.mechanism.certificate(), task.mechanism.kernel
    ratio = certificate.ratio
    if task.domain.circular:
        outside = "taken modulo the period"
    else:
        outside = "moved to the nearer end" if task.domain.clip else "refused by the app, and not reported"
    return {
        "name": task.name,
        "id": task.id,
        "description": task.description,
        "readers": {} if task.central is None else task.readers,
        "release": task.release_words,
        "domain": task.domain_words,
        "outside": outside,
        "epsilon": rounded_up(task.epsilon, 7),
        "epoch": _PERIODS.get(task.epoch_seconds, f"the period of {task.epoch_seconds:,} seconds"),
        "ratio": None if ratio is None else (ratio.numerator, ratio.denominator),
        "ratio_words": "" if ratio is None else rounded_up(float(ratio), 12),
        "above": ratio is not None and ratio > exp_lower_bound(task.epsilon),
        "bound": rounded_up(math.exp(task.epsilon), 12),
        "delta": certificate.delta,
        "mechanism": f"{task.mechanism.name} {task.mechanism.version}",
        "size": f"{kernel.nodes} nodes, {kernel.codes} answers",
        "limits": limits(task.caps, task.charge),
    }


class Limit(NamedTuple):
    """A cap on answers, and the epsilon and delta that `most` answers spend.

    `period` is "in all, for ever" or, for example, "within any 24 hours", and `most` is at least 1.
    """

    period: str
    most: int
    epsilon: float
    delta: float


def limits(caps: Caps, charge: Charge) -> list[Limit]:
    """Return a limit for each cap: first the cap for ever, then the cap of the window. Empty without caps."""
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
    """How sure an observer can be of a value, as texts: before any answer, and after each spent epsilon."""

    before: str
    after: tuple[str, ...]


def beliefs(epsilons: list[float]) -> list[Belief]:
    """Return the largest posterior probability of a value after each epsilon, for a few prior probabilities.

    Reports multiply the odds by at most e^epsilon: a prior p becomes at most ``p e^eps / (1 - p + p e^eps)``,
    with eps for epsilon.
    """
    return [
        Belief(
            percent(prior),
            tuple(percent(prior / (prior + (1 - prior) * math.exp(-epsilon))) for epsilon in epsilons),
        )
        for prior in PRIORS
    ]


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up so that a bound stays a bound."""
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
        f"Probability of each of the {kernel.codes} answers if the value is {values[0]}{unit} and if "
        f"it is {values[1]}{unit}: hardly any answer reveals which of the two it was.",
        (("answer", *names), table),
        Axis("answer that is sent (a code)", 0.0, float(kernel.codes)),
        Axis("probability in percent", 0.0, 1.1 * max(map(max, rows))),
        layers,
    )
