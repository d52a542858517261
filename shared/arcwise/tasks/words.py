"""The privacy of tasks and groups in words for people: how much reports reveal and caps allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from arcwise.tasks.caps import Caps
    from arcwise.tasks.central import CentralStatement


def privacy_words(epsilon: float, delta: float = 0.0) -> str:
    """Return a sentence that says how much one report reveals.

    Examples
    --------
    >>> privacy_words(1.0)
    'any report changes the odds between any two values by at most a factor 2.72'
    """
    beyond = f", but for an additional probability of at most {rounded_up(delta, 3)}" if delta else ""
    return (
        f"any report changes the odds between any two values by at most a factor {_factor(epsilon)}{beyond}"
    )


def _factor(epsilon: float) -> str:
    """Return e^epsilon with three digits, rounded up."""
    return f"{float(rounded_up(math.exp(epsilon), 3)):,.10g}"


def caps_words(caps: Caps, what: str) -> str:
    """Return caps in words; `what`, a report or a round, is the unit that costs epsilon."""

    def line(name: str, lifetime: float | None, rolling: float | None) -> str:
        words = [
            f"{rounded_up(lifetime)} in all" if lifetime is not None else "",
            f"{rounded_up(rolling)} within any {caps.window} s" if rolling is not None else "",
        ]
        told = ", ".join(word for word in words if word)
        return f"{name} {told}" if told else ""

    lines = [
        line("epsilon", caps.lifetime, caps.rolling),
        line("delta", caps.lifetime_delta, caps.rolling_delta),
    ]
    return "; ".join(each for each in lines if each) or (
        f"none: every {what} costs epsilon again, so the app's client must have caps"
    )


def release_words(least: int | None, late: int | None) -> str:
    """Return in words when a server shows counts and until when it accepts batches; "" if it decides itself.

    `least` is the number of reports that a closed epoch must hold, or None if epochs are shown before they
    are closed. `late` is the number of seconds after an epoch in which batches are still accepted.
    """
    holds = f" and holds at least {least:,} reports" if least else ""
    shown = "" if least is None else f"an epoch is shown once it is closed{holds}"
    taken = "" if late is None else f"batches are taken until {late} s after their epoch"
    return "; ".join(words for words in (shown, taken) if words)


def reader_words(epsilon: float, delta: float, central: CentralStatement | None) -> dict[str, str]:
    """Return the guarantees by reader, beginning with the reader who sees most and the local epsilon.

    Examples
    --------
    >>> reader_words(1.0, 0.0, None)
    {'readers of reports, the store, its log, a backup, an export or an archive': 'epsilon = 1 per report'}
    """
    local = (
        f"epsilon = {rounded_up(epsilon)}{f', delta = {rounded_up(delta, 3)}' if delta else ''} per report"
    )
    found = {"readers of reports, the store, its log, a backup, an export or an archive": local}
    if central is not None:
        found["recipients of reports through a relay that others run"] = f"{local}, without its address"
        found["readers of only released counts and results computed from them"] = str(central)
    return found
