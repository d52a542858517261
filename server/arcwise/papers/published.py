"""Published values as they are printed: the tolerance follows from the digits in print."""

from __future__ import annotations

from arcwise.papers.base import Check


def printed(what: str, text: str, computed: float, *, units: float = 0.5, erratum: str = "") -> Check:
    """Return the check of a value against its print.

    `text` has the digits as they are printed, such as "199.92"; the value may differ by `units` units of the
    last one: 1/2 if the source rounds, 1 if it cuts digits off. `erratum` says why the print is wrong, if it
    is.
    """
    published = float(text)
    decimals = len(text.partition(".")[2])
    # A hair more than the units: halves are not exact in floats.
    tolerance = units * 10.0**-decimals / abs(published) * (1.0 + 1e-9)
    return Check(what, published, computed, tolerance=tolerance, erratum=erratum)
