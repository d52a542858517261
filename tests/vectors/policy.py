"""What a client decides: what a report costs, whether a cap allows it, what an answer means.

The answers of `ledger` are written out by hand, from the rules of docs/reference/protocol.md.
"""

from __future__ import annotations

import math
from typing import Any

from arcwise.client.delivery import backoff_seconds, classify, retry_after_seconds
from arcwise.kernels.certificate import exact_epsilon, exp_lower_bound
from arcwise.tasks import micro_epsilon

__all__ = ["answers", "epsilons", "ledger"]

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
        # What was charged while the clock was behind counts from the largest time seen.
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


def answers() -> dict[str, Any]:
    """Return what a client does with each answer."""
    statuses = [0, 100, 101, *range(200, 209), 226, *range(300, 309), *range(400, 432), 451, 499]
    statuses += [*range(500, 512), 520, 524, 530, 598, 599]
    now = 1_795_242_803.0  # Sat, 21 Nov 2026 06:33:23 GMT
    asked: list[str | None] = [None, "", "0", "1", "120", " 120 ", "007", "86400", "86401", "999999999"]
    asked += ["1000000000", "9" * 400, "-5", "+5", "1.5", "1e3", "soon", "\u0661\u0662", "1 2"]
    asked += [
        "Sat, 21 Nov 2026 06:35:23 GMT",
        "Sat, 21 Nov 2026 06:33:23 GMT",
        "Sat, 21 Nov 2026 06:00:00 GMT",
        "Sun, 22 Nov 2026 06:33:24 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sat, 21 Foo 2026 06:35:23 GMT",
        "Sat, 21 Nov 2026",
    ]
    waits = [(1, 0.0), (1, 0.5), (2, 0.5), (5, 0.25), (12, 0.5), (13, 0.5), (14, 0.5), (5000, 0.75)]
    return {
        "statuses": {str(status): classify(status).value for status in statuses},
        "retry_after": [
            {"now": now, "text": text, "seconds": retry_after_seconds(text, now)} for text in asked
        ],
        "backoff": [
            {"failures": failures, "uniform": uniform, "seconds": backoff_seconds(failures, uniform)}
            for failures, uniform in waits
        ],
    }
