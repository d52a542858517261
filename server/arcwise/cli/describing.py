"""Descriptions of tasks and groups in words and numbers, as `show` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.planning.fineness import fineness, worst_unit_variance
from arcwise.digits import duration, rounded_up
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise, Piecewise
from arcwise.mechanisms.circular import CircularMechanism
from arcwise.mechanisms.closed_forms.piecewise import piecewise_worst_variance
from arcwise.tasks.words import caps_words

if TYPE_CHECKING:
    from arcwise.mechanisms import Mechanism
    from arcwise.tasks import Group, Task

_SHORT_SECONDS = 3_600


def describe(task: Task, power: float | None = None) -> str:
    """Describe a task in words, one fact a line.

    `power` is the exponent of the loss that the task's mechanism is optimal for, if known.
    """
    mechanism = task.mechanism
    certificate = mechanism.certificate()
    clip = ", values outside are clipped" if not task.domain.circular and task.domain.clip else ""
    coarse = fineness(mechanism, power=power)
    warnings = [short_epoch(task)] if coarse is None else [coarse.warning(), short_epoch(task)]
    lines = {
        "task": task.name,
        "id": task.id,
        "description": task.description,
        "domain": f"{task.domain_words}{clip}",
        "values": _values(task),
        "goal": task.goal,
        "epsilon": f"{rounded_up(task.epsilon)} per report",
        "privacy": task.privacy_words,
        "delta": _delta(task),
        "readers": f"\n{'':<13}".join(_readers(task)),
        "caps": caps_words(task.caps, "report"),
        "release": task.release_words,
        "epoch": f"{task.epoch_seconds} s",
        "mechanism": _name(mechanism),
        "kernel": _kernel(mechanism),
        "outputs": _outputs(mechanism),
        "variance": _variance(mechanism),
        "certificate": str(certificate),
        "warning": f"\n{'warning':<12} ".join(filter(None, warnings)),
    }
    return "\n".join(f"{key:<12} {value}" for key, value in lines.items() if value)


def describe_group(group: Group) -> str:
    """Describe a group in words, with a line for each fact and for each task."""
    epsilon, delta = group.epsilon, group.charge.delta_units
    count = len(group.tasks)
    lines = {
        "group": group.name,
        "id": group.id,
        "a round": (
            f"every one of the {count} tasks"
            if group.sample is None
            else f"{group.sample} of the {count} tasks, drawn by the device independently of its values"
        ),
        "epsilon": f"{rounded_up(epsilon, 7)} a round, also if a value is missing",
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
        more = (task.description, *_readers(task), task.id)
        words += [f"{'':<12} {'':<{width}}  {line}" for line in more if line]
    return "\n".join(words)


def short_epoch(*tasks: Task) -> str:
    """Return a warning about the shortest epoch of these tasks, or "" if that is an hour or longer."""
    seconds = min(task.epoch_seconds for task in tasks)
    if seconds >= _SHORT_SECONDS:
        return ""
    return (
        f"the number of the epoch reveals when a report was made, to within {duration(seconds)}: a relay, or "
        "anyone who knows other times of a device, can link it to that device; a longer epoch reveals less"
    )


def _readers(task: Task) -> list[str]:
    return [] if task.central is None else [f"{who}: {what}" for who, what in task.readers.items()]


def _values(task: Task) -> str:
    domain = task.domain
    if domain.size is None:
        return ""
    between = {
        "refuse": "a number between two is refused",
        "nearest": "a number between two is rounded to the nearer one, which biases means",
        "stochastic": "a number between two is rounded to one of them at random",
    }[domain.rounding]
    nodes = "each a node" if domain.discrete else "too many for a node each: treated as a continuous domain"
    return f"{domain.size:,}, {nodes}; {between}"


def _delta(task: Task) -> str:
    units, caps = task.charge.delta_units, task.caps
    if not units:
        return ""
    capped = caps.lifetime_delta is not None or caps.rolling_delta is not None
    return f"{rounded_up(units / UNIT)} per report" + ("" if capped else ": its caps do not bound delta")


def _name(mechanism: Mechanism) -> str:
    words = f"{mechanism.name} {mechanism.version}, placement {mechanism.placement}"
    if isinstance(mechanism, OptimalCircular):
        for power, error in ((1.0, ""), (2.0, ", by its squared error")):
            optimum = OptimalCircular(
                mechanism.domain, mechanism.epsilon, nodes=mechanism.kernel.nodes, power=power
            )
            if mechanism.kernel == optimum.kernel:
                return f"{words}: the optimum of Zheng, Mishra and Hu for a single value on a circle{error}"
        width = mechanism.kernel.window / mechanism.kernel.codes
        return f"{words}: the same shape as the optimum with another window, {width:.3g} of the circle"
    if not isinstance(mechanism, OptimalPiecewise):
        return words
    if mechanism.placement == "clamp":
        return f"{words}: the optimum of Zheng, Mishra and Hu for a single value"
    same = ": the same integers as in the Piecewise Mechanism (Wang et al. 2019)"
    return words + (same if _is_piecewise(mechanism) else "")


def _is_piecewise(mechanism: Mechanism) -> bool:
    """Return whether the Piecewise Mechanism with the same number of nodes has this kernel."""
    if not isinstance(mechanism, (OptimalPiecewise, Piecewise)) or mechanism.placement != "inset":
        return False
    same = Piecewise(mechanism.domain, mechanism.epsilon, nodes=mechanism.kernel.nodes)
    return mechanism.kernel == same.kernel


def _kernel(mechanism: Mechanism) -> str:
    kernel = mechanism.kernel
    size = f"{kernel.nodes} nodes, {kernel.codes} codes"
    if isinstance(kernel, WindowKernel):
        inside = kernel.window * (kernel.background + kernel.extra) / UNIT
        return (
            f"{size}, window of {kernel.window}: "
            f"a report lies in the window of the true value with probability {inside:.3f}"
        )
    if isinstance(mechanism, CircularMechanism):
        return (
            f"{size}, one row that is rotated to the value: a report keeps {mechanism.attenuation():.3f} "
            "of the first trigonometric moment"
        )
    return f"{size}, a table of {kernel.nodes * kernel.codes:,} weights"


def _outputs(mechanism: Mechanism) -> str:
    if isinstance(mechanism, CircularMechanism):
        return ""
    low, high = mechanism.values.min(), mechanism.values.max()
    if mechanism.unbiased:
        means = "unbiased"
    elif mechanism.end_zones:
        means = "biased: values near an end give the same reports, and means are ranges"
    else:
        means = "biased: the server corrects the bias, or bounds it, with its own numbers per code"
    return f"from {low:.6g} to {high:.6g}, {means}"


def _variance(mechanism: Mechanism) -> str:
    domain = mechanism.domain
    if domain.circular or not mechanism.unbiased:
        return ""
    unit = worst_unit_variance(mechanism)
    deviation = unit**0.5 * domain.length
    words = f"of one decoded report at most {deviation * deviation:.5g} (standard deviation {deviation:.5g})"
    if mechanism.approximate or _is_piecewise(mechanism):
        return f"{words}, at any value"
    if mechanism.lattice is None:
        piecewise = piecewise_worst_variance(mechanism.epsilon)
    else:
        piecewise = worst_unit_variance(Piecewise(domain, mechanism.epsilon))
    ratio = piecewise / unit
    return f"{words}, at any value; the Piecewise Mechanism needs {ratio:.2f} times as many reports"
