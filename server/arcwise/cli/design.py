"""`arcwise design`: designed mechanisms, compared with a lower bound and the best published mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arcwise.analysis.design import figures
from arcwise.cli.terminal import number_table, progress_bar, wide_console
from arcwise.digits import rounded_up
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.piecewise import piecewise_worst_variance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.design import Figure

_EPSILONS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_CLAIMS = ((2.0, 0.015), (4.0, 0.05))
"""Pairs of an epsilon and a share: up to this epsilon, designs exceed the bound by at most this share."""
_LESS_FROM = 0.5
"""From this epsilon on, a design is better than all published mechanisms; below it, at least as good."""
_BIAS = 1e-9


@click.command()
@click.argument("more", nargs=-1, type=float, metavar="[EPSILON]...")
@click.option(
    "--epsilon", multiple=True, type=float, help="One or more values of epsilon; 0.1 to 8 unless given."
)
@click.option("--cache/--no-cache", default=True, help="Use designs that are on disk, after checking them.")
def design(more: tuple[float, ...], epsilon: tuple[float, ...], cache: bool) -> None:
    """Design mechanisms for means and check the claims about them.

    Values lie in an interval of length 1. The bound is recomputed: every epsilon-LDP mechanism has at least
    this worst-case variance. The excess of a design over the bound is claimed to be at most 1.5 % up to
    epsilon 2 and 5 % up to 4. A design is claimed to be at least as good as the best published mechanism, and
    better from epsilon 0.5 on. Exits with 1 if a claim fails.

    \b
    arcwise design --epsilon 0.5 1 2 4
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    epsilons = sorted({check_epsilon(value) for value in (*epsilon, *more)} or set(_EPSILONS))
    with progress_bar(counted=False) as progress:
        rows = figures(epsilons, cache=cache, progress=lambda share, text: progress(share, 1.0, text))
    _print(rows)
    broken = [claim for row in rows for claim in broken_claims(row)]
    for claim in broken:
        click.echo(f"DOES NOT HOLD: {claim}", err=True)
    if broken:
        raise click.exceptions.Exit(1)
    click.echo(
        "Every claim holds: the excess over the bound is at most 1.5 % up to epsilon 2 and at most 5 % up to "
        "epsilon 4, and no published mechanism is better."
    )


def broken_claims(row: Figure) -> list[str]:
    """Return, in words, the claims that do not hold for this row."""
    broken = []
    at = f"at epsilon {rounded_up(row.epsilon)}"
    limit = next((share for most, share in _CLAIMS if row.epsilon <= most), None)
    if limit is not None and row.excess > limit:
        broken.append(f"{at} the excess over the bound is {row.excess:.3%}, more than {limit:.1%}")
    if row.excess < 0.0:
        broken.append(f"{at} the design is below the bound: {row.worst!r} < {row.bound!r}")
    if row.worst > row.published or (row.worst == row.published and row.epsilon >= _LESS_FROM):
        broken.append(f"{at} the best published mechanism has {row.published!r}, the design {row.worst!r}")
    if row.bias > _BIAS:
        broken.append(f"{at} the bias is {row.bias!r}, more than {_BIAS:g} of the range")
    if row.spent > row.epsilon * (1 + 1e-12):
        broken.append(f"{at} the weights spend {row.spent!r}")
    return broken


def _print(rows: Sequence[Figure]) -> None:
    headings = ["\nepsilon", "no mechanism\nis below", "\ndesign", "\nexcess", "best\npublished"]
    headings += ["published:\nusers", "PM:\nusers", "largest\nbias", "nodes x\ncodes", "\nseconds"]
    table = number_table("", headings, "Worst-case variance of one report, interval of length 1")
    for row in rows:
        table.add_row(
            rounded_up(row.epsilon),
            f"{row.bound:.5g}",
            f"{row.worst:.5g}",
            f"{row.excess:.3%}",
            f"{row.published:.5g}",
            f"{row.saving:.3f}",
            f"{piecewise_worst_variance(row.epsilon) / row.worst:.3f}",
            f"{row.bias:.0e}",
            f"{row.nodes} x {row.codes}",
            f"{row.seconds:.1f}",
        )
    wide_console(120).print(table, highlight=False)
    click.echo(
        "\nUsers: how many times as many users the other mechanism needs for the same error of a mean.\n"
        "Seconds: near 0 if the design was on disk; --no-cache recomputes it."
    )
