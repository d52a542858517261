"""What a group asks of devices, in words and numbers: what `arcwise group show` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.cli.task.words import short_epoch
from arcwise.digits import rounded_up
from arcwise.kernels.certificate import UNIT
from arcwise.tasks.words import caps_words

if TYPE_CHECKING:
    from arcwise.tasks import Group


def describe(group: Group) -> str:
    """Return what a group asks of devices, a line for each fact and for each task."""
    epsilon, delta = group.epsilon, group.charge.delta_units
    count = len(group.tasks)
    lines = {
        "group": group.name,
        "id": group.id,
        "a round": (
            f"every one of the {count} tasks"
            if group.sample is None
            else f"{group.sample} of the {count} tasks, drawn by the device whatever its values are"
        ),
        "epsilon": f"{rounded_up(epsilon, 7)} a round, also where a value is missing",
        "delta": f"{rounded_up(delta / UNIT)} a round" if delta else "",
        "caps": caps_words(group.caps, "round"),
        "warning": short_epoch(*group.tasks),
    }
    words = [f"{key:<12} {value}" for key, value in lines.items() if value]
    width = max(len(task.name) for task in group.tasks)
    for task in group.tasks:
        said = f"epsilon {rounded_up(task.epsilon, 7)}, {task.domain_words}, goal {task.goal}"
        said += f", {task.mechanism.name}"
        words.append(f"{'task':<12} {task.name:<{width}}  {said}")
        readers = [] if task.central is None else [f"{who}: {what}" for who, what in task.readers.items()]
        words += [f"{'':<12} {'':<{width}}  {line}" for line in (task.description, *readers, task.id) if line]
    return "\n".join(words)
