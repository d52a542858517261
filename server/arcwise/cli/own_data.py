"""Values of the user's own as a population: reads them, finds their domain, says what that reveals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click
import numpy as np

from arcwise.analysis.planning.mechanisms import domain_words
from arcwise.cli.domain import read_domain
from arcwise.cli.numbers import read_numbers
from arcwise.cli.task.sample import proposed
from arcwise.digits import counted
from arcwise.domains import Interval

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

_REVEALS = "a task is public: a mechanism that is chosen by these values reveals something of them, too"


class OwnData(NamedTuple):
    """Values, and a domain that holds them, clipped where they lie outside."""

    values: FloatArray
    domain: Domain


def read_own_numbers(path: Path, column: str | None) -> FloatArray:
    """Return the numbers of a file of `--data`, shape (n,); says on stderr how many rows have none."""
    values = read_numbers(path, column, missing=True)
    present = values[~np.isnan(values)]
    if absent := values.size - present.size:
        click.echo(f"note: left out {counted(absent, 'row')} without a value", err=True)
    return present


def read_own_data(
    path: Path,
    column: str | None,
    domain_text: str | None,
    circle: float | None,
    *,
    step: float | None = None,
    rounding: str | None = None,
    stepped: bool = True,
) -> OwnData:
    """Return the values of a file and their domain, from the options or with bounds taken from the values.

    Notes on stderr say what is proposed, and that it reveals something of the values. With `stepped`, a step
    is proposed together with bounds for values that are multiples of one.
    """
    values = read_own_numbers(path, column)
    if domain_text is not None or circle is not None:
        domain, notes = _kept(values, read_domain(domain_text, circle, step=step, rounding=rounding))
    elif values.min() == values.max():
        raise click.ClickException(
            f"--data must hold different numbers, got {float(values[0]):.12g} only: give --domain"
        )
    else:
        proposal = proposed(values, None, step=step, rounding=rounding, stepped=stepped)
        domain, notes = proposal.domain, [f"{domain_words(proposal.domain)}", *proposal.notes]
    for note in (*notes, _REVEALS):
        click.echo(f"note: {note}", err=True)
    return OwnData(values, domain)


def _kept(values: FloatArray, domain: Domain) -> tuple[Domain, list[str]]:
    """Return a domain that takes all values, at its ends if they lie outside, and what to say of these."""
    if domain.circular:
        return domain, []
    outside = int(((values < domain.low) | (values > domain.high)).sum())
    if not outside:
        return domain, []
    clipping = Interval(domain.low, domain.high, clip=True, step=domain.step, rounding=domain.rounding)
    lies = "lies" if outside == 1 else "lie"
    return clipping, [
        f"{outside:,} of {values.size:,} values {lies} outside and are clipped, which moves means"
    ]
