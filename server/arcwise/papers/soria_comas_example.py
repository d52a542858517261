"""Example 2 of Soria-Comas and Domingo-Ferrer, section 6: noise for two attributes.

Epsilon is 1, one attribute changes by at most 1, the other by at most 10, in every combination; the core of
the box-shaped noise is [-0.1, 0.1] x [-1, 1].
"""

from __future__ import annotations

from arcwise.noise import BoxStaircase, Laplace

SENSITIVITIES = (1.0, 10.0)
BOX = BoxStaircase(1.0, SENSITIVITIES, (0.1, 1.0))
LAPLACE = Laplace(1.0, sum(SENSITIVITIES))  # of the L1 sensitivity 11, the same for both attributes
SCALED = tuple(Laplace(1.0, 2.0 * s) for s in SENSITIVITIES)
"""The fairer comparator: attributes in units of their own sensitivity have the L1 sensitivity 2. A change by
(1, 10) costs 1/2 + 10/20 = 1 = epsilon, so this noise protects Example 2 too."""
