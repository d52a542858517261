"""Check a certificate on a mechanism's integer weights, for `arcwise task verify`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import click

from arcwise.analysis.central_privacy.promise import check_promise
from arcwise.cli.terminal import progress_bar
from arcwise.digits import rounded_up
from arcwise.errors import ArcwiseError, CertificateError
from arcwise.kernels import WindowKernel
from arcwise.kernels.certificate import UNIT, exp_lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from arcwise.kernels import Kernel
    from arcwise.tasks import Task

_WRONG_ROW = "a row does not sum to 2**64, or has a negative weight"


def verify_files(files: Sequence[Path], verified: Callable[[Path], Iterable[str]]) -> None:
    """Print the output of `verified` for each file, and exit with 1 if a file fails."""
    failed = 0
    for path in files:
        try:
            with progress_bar(str(path), counted=False):
                found = list(verified(path))
            for words in found:
                click.echo(f"ok      {path}: {words}")
        except ArcwiseError as error:  # noqa: PERF203 (check the other files too)
            failed += 1
            click.echo(f"FAILED  {error}", err=True)  # the error names the file
    if failed:
        raise click.exceptions.Exit(1)


def verified(task: Task) -> str:
    """Check every row and code of a task, and every pair of rows if the task has a delta; return a summary.

    The check does not use the kernel's own arithmetic. It uses only the kernel's rows or, for a window, the
    integers that the rows are made of. Raises `CertificateError` if the rows do not satisfy the certificate,
    or the counts do not keep the central statement.
    """
    kernel, certificate = task.mechanism.kernel, task.mechanism.certificate()
    largest, smallest = window_extremes(kernel) if type(kernel) is WindowKernel else extremes(kernel)
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


def extremes(kernel: Kernel) -> tuple[list[int], list[int]]:
    """Return the largest and smallest weight of each code over all rows; raise if a row's sum is wrong."""
    largest = smallest = kernel.row(0)
    for node in range(kernel.nodes):
        row = kernel.row(node)
        if sum(row) != UNIT or min(row) < 0:
            raise CertificateError(_WRONG_ROW)
        largest, smallest = list(map(max, largest, row)), list(map(min, smallest, row))
    return largest, smallest


def window_extremes(kernel: WindowKernel) -> tuple[list[int], list[int]]:
    """Return the same as `extremes`, from a window kernel's integers: a fine grid has billions of weights.

    Row s gives each of K codes the weight b, adds 1 to each of the first L codes, and adds g to each of the W
    codes from s on, modulo K. As W < K these are W different codes, so all rows have the sum ``K b + L + W
    g``. Each code is inside the window of some row and outside the window of another row.
    """
    codes, window, background, extra = kernel.codes, kernel.window, kernel.background, kernel.extra
    leftover = UNIT - codes * background - window * extra
    if codes != (kernel.nodes if kernel.circular else kernel.nodes + window - 1) or not (
        0 < window < codes and 0 <= leftover < codes and min(background, extra) >= 0
    ):
        raise CertificateError(_WRONG_ROW)
    smallest = [background + 1] * leftover + [background] * (codes - leftover)
    return [weight + extra for weight in smallest], smallest


def _delta(rows: list[list[int]], bound: Fraction) -> Fraction:
    """Return the exact largest ``sum_j max(0, w[s][j] - bound * w[t][j])``, for rows s and t and codes j."""
    top, bottom = bound.numerator, bound.denominator
    raised = [[weight * top for weight in row] for row in rows]
    scaled = [[weight * bottom for weight in row] for row in rows]
    largest = max(
        sum(a - b for a, b in zip(first, second, strict=True) if a > b)
        for first in scaled
        for second in raised
    )
    return Fraction(largest, bottom)
