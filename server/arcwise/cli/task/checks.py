"""The certificate's claim checked on the integers themselves: what `arcwise task verify` does."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from arcwise.analysis.central_privacy.promise import check_promise
from arcwise.digits import rounded_up
from arcwise.errors import CertificateError
from arcwise.kernels.certificate import UNIT, exp_lower_bound

if TYPE_CHECKING:
    from arcwise.tasks import Task

__all__ = ["verified"]


def verified(task: Task) -> str:
    """Return what was checked, in words: every row, every code, and for a delta every pair of rows.

    Nothing of the kernel's own arithmetic is used, only its rows.

    Raises
    ------
    CertificateError
        When the rows do not keep what the certificate says, or the counts what a central statement promises.
    """
    kernel, certificate = task.mechanism.kernel, task.mechanism.certificate()
    largest = smallest = kernel.row(0)
    for node in range(kernel.nodes):  # one after another: all rows of a fine grid are gigabytes
        row = kernel.row(node)
        if sum(row) != UNIT or min(row) < 0:
            raise CertificateError("a row does not sum to 2**64, or has a negative weight")
        largest, smallest = list(map(max, largest, row)), list(map(min, smallest, row))
    ratio = certificate.ratio
    if ratio is not None and any(
        most * ratio.denominator > least * ratio.numerator
        for most, least in zip(largest, smallest, strict=True)
    ):
        raise CertificateError("two weights of one code have a larger ratio than the certificate says")
    bound = exp_lower_bound(certificate.epsilon)
    if certificate.delta == 0:
        if ratio is None or ratio > bound:
            raise CertificateError("the largest ratio of two weights is above e^epsilon, and delta is 0")
    elif _delta([kernel.row(node) for node in range(kernel.nodes)], bound) > certificate.delta:
        raise CertificateError("two rows differ by a larger delta than the certificate says")
    proved = check_promise(task)
    promised = "" if proved is None else f"; central epsilon {rounded_up(proved.epsilon, 4)} is as promised"
    return f"{kernel.nodes} rows sum to 2**64; {certificate}{promised}"


def _delta(rows: list[list[int]], bound: Fraction) -> Fraction:
    """Return the largest ``sum_j max(0, w[s][j] - e^epsilon w[t][j])`` of all pairs of rows, exactly."""
    top, bottom = bound.numerator, bound.denominator
    raised = [[weight * top for weight in row] for row in rows]
    scaled = [[weight * bottom for weight in row] for row in rows]
    largest = max(
        sum(a - b for a, b in zip(first, second, strict=True) if a > b)
        for first in scaled
        for second in raised
    )
    return Fraction(largest, bottom)
