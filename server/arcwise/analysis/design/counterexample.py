"""Optimal among piecewise densities is not optimal among all mechanisms: a counterexample by hand.

Report a if the value is below 1/2 and 1-a otherwise, the truth with probability
``e^epsilon / (1 + e^epsilon)``. With ``a = (e^epsilon - 1) / (4 e^epsilon)`` the worst case of ``|y-x|`` is
``(1 + e^-epsilon) / 4``, reached at 0, 1/2 and 1: 0.342 at epsilon 1, where the best density has 0.378. The
law has two atoms, which no density has. From epsilon 1.77 on the density is better again; what all mechanisms
can reach is `lower_bound` with the goal "value".
"""

from __future__ import annotations

import math
from typing import NamedTuple

from arcwise.kernels.certificate import check_epsilon


class TwoAtoms(NamedTuple):
    """Randomised response with the two outputs ``(a, 1-a)`` of the unit interval.

    `truth` is the probability of the output on the value's side of 1/2.
    """

    outputs: tuple[float, float]
    truth: float

    def expected_error(self, x: float) -> float:
        """Return ``E|y-x|`` for the input x in [0, 1]."""
        near, far = sorted(self.outputs, key=lambda y: (y < 0.5) != (x < 0.5))
        return self.truth * abs(near - x) + (1.0 - self.truth) * abs(far - x)

    def worst_case(self) -> float:
        """Return the largest ``E|y-x|`` over all inputs.

        On either side of 1/2 the error is piecewise linear in x, with kinks at the outputs only, so its
        largest values are at the ends of the pieces: 0, the outputs, 1/2 (from both sides) and 1.
        """
        below = math.nextafter(0.5, 0.0)
        return max(self.expected_error(x) for x in (0.0, *self.outputs, below, 0.5, 1.0))


def randomized_response(epsilon: float) -> TwoAtoms:
    """Return the counterexample at this epsilon.

    Examples
    --------
    >>> round(randomized_response(1.0).worst_case(), 6)
    0.34197
    """
    inverse = math.exp(-check_epsilon(epsilon))
    a = (1.0 - inverse) / 4.0
    return TwoAtoms((a, 1.0 - a), 1.0 / (1.0 + inverse))
