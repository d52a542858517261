"""The page: what a task or a group asks and reveals, filled into `page.html`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from arcwise.analysis.charts import stylesheet, svg
from arcwise.cli.privacy.figures import beliefs, limits, most_revealing, output_chart
from arcwise.cli.task.words import short_epoch
from arcwise.digits import rounded_up
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.tasks import Group, Task
from arcwise.tasks.fields import SCHEMA_VERSION
from arcwise.version import __version__

if TYPE_CHECKING:
    from arcwise.domains import Domain

_FOLDER = Path(__file__).parent


def privacy_page(asked: Task | Group, file: str) -> str:
    """Return the privacy page of a task or group as HTML, without a script and with nothing from outside.

    `file` is the name of its file, for the command on the page that checks it.
    """
    group = isinstance(asked, Group)
    tasks = list(asked.tasks) if isinstance(asked, Group) else [asked]
    shown = most_revealing(asked) if isinstance(asked, Group) else asked
    once = "round" if group else "report"
    epsilon, delta = asked.epsilon, asked.charge.delta_units
    capped = limits(asked.caps, asked.charge)
    columns = [
        f"one {once}",
        *(f"{limit.most:,} {once}s, {limit.period}" for limit in capped if limit.most > 1),
    ]
    spent = [epsilon, *(limit.most * epsilon for limit in capped if limit.most > 1)]
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,  # also of what people wrote into the file
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        asked=asked,
        kind="group" if group else "task",
        once=once,
        file=file,
        tasks=[_task(task) for task in tasks],
        short_epoch=short_epoch(*tasks),
        sample=asked.sample if isinstance(asked, Group) else None,
        epsilon=rounded_up(epsilon, 7),
        factor=_up(math.exp(epsilon)),
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
        columns=columns,
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
    """Return what the page says of a task."""
    certificate, kernel = task.mechanism.certificate(), task.mechanism.kernel
    ratio = certificate.ratio
    return {
        "name": task.name,
        "id": task.id,
        "description": task.description,
        "readers": {} if task.central is None else task.readers,
        "release": task.release_words,
        "domain": task.domain_words,
        "outside": _outside(task.domain),
        "epsilon": rounded_up(task.epsilon, 7),
        "epoch": _period(task.epoch_seconds),
        "ratio": None if ratio is None else (ratio.numerator, ratio.denominator),
        "ratio_words": "" if ratio is None else rounded_up(float(ratio), 12),
        "above": ratio is not None and ratio > exp_lower_bound(task.epsilon),
        "bound": rounded_up(math.exp(task.epsilon), 12),
        "delta": certificate.delta,
        "mechanism": f"{task.mechanism.name} {task.mechanism.version}",
        "size": f"{kernel.nodes} nodes, {kernel.codes} answers",
        "limits": limits(task.caps, task.charge),
    }


def _outside(domain: Domain) -> str:
    if domain.circular:
        return "taken modulo the period"
    return "moved to the nearer end" if domain.clip else "refused by the app, and not reported"


def _period(seconds: int) -> str:
    names = {3600: "the hour", 86_400: "the day", 604_800: "the week"}
    return names.get(seconds, f"the period of {seconds:,} seconds")


def _up(number: float) -> str:
    """Return a number with three digits, rounded up."""
    return f"{float(rounded_up(number, 3)):,.10g}"
