"""Decisions of a client: the cost of a report, whether a cap allows it, the meaning of an answer.

The answers of `ledger` and `schedules` are written out by hand, from the rules of docs/reference/protocol.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from arcwise.client.delivery import backoff_seconds, classify, retry_after_seconds
from arcwise.domains import Circle
from arcwise.kernels.certificate import exact_epsilon, exp_lower_bound
from arcwise.mechanisms import DesignedCircular
from arcwise.tasks import Caps, Task, micro_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence


_SCALE = 2**192


def epsilons() -> list[dict[str, Any]]:
    """Return epsilons whose float is above, below and equal to the decimal that it prints as."""
    decimals = [0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.1, 1.5, 2.0, 2.3, 3.3, 4.0, 6.9, 8.0, 10.0, 19.99, 20.0]
    others = [1 / 3, math.log(3), math.pi, 0.123_456_1, 0.999_999_9, 1.000_000_1, math.nextafter(1.0, 2.0)]
    others += [math.nextafter(0.3, 0.0), math.nextafter(0.1, 1.0), math.nextafter(20.0, 0.0)]
    cases = []
    for epsilon in decimals + others:
        exact = exact_epsilon(epsilon)
        bound = exp_lower_bound(epsilon) * _SCALE
        assert bound.denominator == 1
        cases.append(
            {
                "epsilon": epsilon,
                "numerator": str(exact.numerator),
                "denominator": str(exact.denominator),
                "micro_epsilon": micro_epsilon(epsilon),
                "exp_lower_bound_times_2_to_192": str(bound),
            }
        )
    return cases


def ledger() -> dict[str, Any]:
    """Return sequences of times of the device's clock, in seconds, and whether each report is granted."""
    yes, no = True, False

    def case(charge: int, caps: list[int | None], granted: list[tuple[float, bool]]) -> dict[str, Any]:
        return {
            "task": _charged(charge, caps).to_bytes().hex(),
            "micro_epsilon": charge,
            "caps": caps,
            "times": [time for time, _ in granted],
            "granted": [grant for _, grant in granted],
            "spent": charge * sum(grant for _, grant in granted),
        }

    million = 1_000_000
    return {
        "no cap": case(million, [None, None, 100], [(float(t), yes) for t in range(20)]),
        "lifetime": case(
            million, [2_500_000, None, 100], [(0.0, yes), (1.0, yes), (2.0, no), (1e9, no), (1e12, no)]
        ),
        "a lifetime that charges fill exactly": case(
            100_000, [million, None, 100], [*((0.0, yes) for _ in range(10)), (1e9, no)]
        ),
        # A charge leaves the window when its age reaches the window's length, not when it exceeds it.
        "rolling": case(
            million,
            [None, 2_000_000, 100],
            [(0.0, yes), (60.0, yes), (99.5, no), (100.0, yes), (159.9, no), (160.0, yes), (160.0, no)],
        ),
        # Ledger time is the largest time seen: a clock that steps back opens no window.
        "a clock that steps back": case(
            million,
            [None, million, 100],
            [(1000.0, yes), (0.0, no), (500.0, no), (1099.0, no), (1100.0, yes), (1050.0, no), (1200.0, yes)],
        ),
        # Charges while the clock was behind count from the largest time seen.
        "charged behind the largest time": case(
            million,
            [None, 2_000_000, 100],
            [(1000.0, yes), (10.0, yes), (1099.0, no), (1100.0, yes), (1100.0, yes), (1199.0, no)],
        ),
        # A refused report moves the time on, and costs nothing.
        "refused in the future": case(
            million,
            [None, million, 100],
            [(0.0, yes), (99.0, no), (100.0, yes), (150.0, no), (5000.0, yes), (100.0, no)],
        ),
        "both caps": case(
            million,
            [3_000_000, million, 10],
            [(0.0, yes), (5.0, no), (10.0, yes), (20.0, yes), (30.0, no), (1e6, no)],
        ),
    }


def _charged(charge: int, caps: list[int | None]) -> Task:
    """Return a task whose reports cost this many micro-epsilon."""
    lifetime, rolling, window = caps
    assert window is not None
    epsilon = charge / 1e6
    kept = Caps(lifetime and lifetime / 1e6, rolling and rolling / 1e6, window)
    mechanism = DesignedCircular(Circle(1), epsilon, [2**63 - 1, 2**63 + 1])
    return Task("charged", Circle(1), epsilon, mechanism=mechanism, caps=kept)


def schedules() -> dict[str, Any]:
    """Return queues, answers to the batches sent from them, and the time at which each batch is sent.

    All batches wait from time 0 on; an answer comes at the time of its request. A batch is named by its place
    in the queue, from 0 on.
    """

    def case(
        batches: str,
        answers: Sequence[tuple[int, str | None, float]],
        sends: list[tuple[float, int]],
        flushes: tuple[float, ...] = (),
    ) -> dict[str, Any]:
        return {
            "batches": batches.split(),
            "answers": [
                {"status": status, "retry_after": asked, "uniform": uniform}
                for status, asked, uniform in answers
            ],
            "flushes": list(flushes),
            "sends": [list(send) for send in sends],
        }

    sent, busy = (204, None, 0.0), (503, None, 0.5)
    unknown, refused = (404, None, 0.5), (401, None, 0.5)
    doubling = [(0.0, 0), (0.5, 0), (1.5, 0), (3.5, 0), (7.5, 0)]
    return {
        "all is sent at once": case("a b a", [sent] * 3, [(0.0, 0), (0.0, 1), (0.0, 2)]),
        "a retry holds all tasks": case("a b", [busy, sent, sent], [(0.0, 0), (0.5, 1), (0.5, 0)]),
        "no answer is a retry": case("a", [(0, None, 0.25), sent], [(0.0, 0), (0.25, 0)]),
        "failures in a row double the wait": case("a", [busy] * 4 + [sent], doubling),
        "a success ends the row": case(
            "a a", [busy, busy, sent, busy, sent], [(0.0, 0), (0.5, 1), (1.5, 0), (1.5, 1), (2.0, 1)]
        ),
        "a keep holds its own task": case(
            "a b a", [unknown, sent, unknown, sent, sent], [(0.0, 0), (0.0, 1), (0.5, 2), (1.5, 0), (1.5, 2)]
        ),
        "a keep ends the row of all": case(
            "a b", [busy, unknown, busy, sent, sent], [(0.0, 0), (0.5, 1), (0.5, 0), (1.0, 1), (1.0, 0)]
        ),
        "a drop ends the waits of its task": case(
            "a a", [unknown, (400, None, 0.5), sent], [(0.0, 0), (0.5, 1), (0.5, 0)]
        ),
        "a pause holds all tasks": case("a b", [refused, sent, sent], [(0.0, 0), (2700.0, 1), (2700.0, 0)]),
        "a pause is a failure in the row": case(
            "a", [refused, busy, sent], [(0.0, 0), (2700.0, 0), (2701.0, 0)]
        ),
        # A wait that the server names is rounded up to a minute, an hour or a day, times 1 + U.
        "a named wait is a minute at least": case("a", [(503, "1", 0.0), sent], [(0.0, 0), (60.0, 0)]),
        "a named minute": case("a", [(503, "60", 0.5), sent], [(0.0, 0), (90.0, 0)]),
        "a named wait above a minute": case("a", [(429, "61", 0.25), sent], [(0.0, 0), (4500.0, 0)]),
        "a named wait above an hour": case("a", [(503, "3601", 0.0), sent], [(0.0, 0), (86_400.0, 0)]),
        "a named wait above a day": case("a", [(503, "100000", 0.5), sent], [(0.0, 0), (129_600.0, 0)]),
        "a named wait is drawn anew each time": case(
            "a", [(503, "30", 0.25), (503, "30", 0.75), sent], [(0.0, 0), (75.0, 0), (180.0, 0)]
        ),
        "a named wait that is shorter than the own": case(
            "a", [refused, (403, "5", 0.5), sent], [(0.0, 0), (2700.0, 0), (5400.0, 0)]
        ),
        "a named wait with a pause": case("a", [(403, "1801", 0.5), sent], [(0.0, 0), (5400.0, 0)]),
        "a named wait with a keep": case(
            "a b", [(404, "60", 0.5), sent, sent], [(0.0, 0), (90.0, 1), (90.0, 0)]
        ),
        "a named wait with a success": case(
            "a a b", [(204, "30", 0.5), sent, sent], [(0.0, 0), (90.0, 1), (90.0, 2)]
        ),
        "a named wait with a drop": case(
            "a a b", [(410, "30", 0.5), sent, sent], [(0.0, 0), (90.0, 1), (90.0, 2)]
        ),
        "an app asks to send at once": case(
            "a", [busy] * 4 + [sent], [(0.0, 0), (0.5, 0), (1.5, 0), (2.0, 0), (2.5, 0)], (2.0,)
        ),
        "an app asks to send a batch that is kept": case(
            "a", [unknown, unknown, unknown, sent], [(0.0, 0), (0.5, 0), (1.5, 0), (2.0, 0)], (2.0,)
        ),
        "an app cannot end a named wait": case("a", [(503, "60", 0.5), sent], [(0.0, 0), (90.0, 0)], (10.0,)),
    }


def answers() -> dict[str, Any]:
    """Return the client's reaction to each answer."""
    statuses = [0, 100, 101, *range(200, 209), 226, *range(300, 309), *range(400, 432), 451, 499]
    statuses += [*range(500, 512), 520, 524, 530, 598, 599]
    asked: list[str | None] = [None, "", "0", "1", "120", " 120 ", "007", "86400", "86401", "999999999"]
    asked += ["1000000000", "9" * 400, "-5", "+5", "1.5", "1e3", "soon", "\u0661\u0662", "1 2"]
    # A date is not a wait, in any form.
    asked += ["Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 21 Nov 2026"]
    waits = [(1, 0.0), (1, 0.5), (2, 0.5), (5, 0.25), (12, 0.5), (13, 0.5), (14, 0.5), (5000, 0.75)]
    return {
        "statuses": {str(status): classify(status).value for status in statuses},
        "retry_after": [{"text": text, "seconds": retry_after_seconds(text)} for text in asked],
        "backoff": [
            {"failures": failures, "uniform": uniform, "seconds": backoff_seconds(failures, uniform)}
            for failures, uniform in waits
        ],
    }
