"""Epochs with few reports, joined to blocks: no two sums that are shown differ by fewer than a minimum.

Who may ask for any range takes one sum from another, and what is left is as good as shown. So counts are
shown as sums of whole blocks, each of at least the minimum; however such sums are combined, what is left is
made of whole blocks. Blocks are chosen from the number of reports of each epoch alone, never from codes.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_EPOCHS", "Block", "blocks_of"]

MOST_EPOCHS = 64
"""Of a block: two months of days, nearly three days of hours."""


class Block(NamedTuple):
    """Epochs from `first` to `last`, both included, and how many reports they have: at least one."""

    first: int
    last: int
    n: int

    def __contains__(self, epoch: object) -> bool:
        assert isinstance(epoch, int)  # noqa: S101 (narrows the type for the checker)
        return self.first <= epoch <= self.last


def blocks_of(reports: Mapping[int, int], least: int) -> list[Block]:
    """Return the blocks that epochs are shown in, in order; what lies in none of them is withheld.

    Parameters
    ----------
    reports
        How many there are, by epoch.
    least
        Reports that a block must have. Up to 1, every epoch that has any is a block.

    Notes
    -----
    Blocks have 1, 2, 4, ... up to 64 epochs and start at multiples of that number, so that they stay where
    they are while others fill. From pairs of epochs upwards, two halves are joined where one has reports, but
    too few, and the other has too few as well or is one block. Where the other has several blocks, which all
    would have to be joined, the reports of the small half are withheld; those of 64 epochs that together have
    too few are withheld too.

    Examples
    --------
    >>> blocks_of({8: 50, 9: 60, 10: 300, 11: 200}, 100)
    [Block(first=8, last=9, n=110), Block(first=10, last=10, n=300), Block(first=11, last=11, n=200)]
    >>> blocks_of({8: 50, 9: 20, 10: 300, 11: 200}, 100)
    [Block(first=10, last=10, n=300), Block(first=11, last=11, n=200)]
    """
    filled = sorted((epoch, n) for epoch, n in reports.items() if n)
    if least <= 1:
        return [Block(epoch, epoch, n) for epoch, n in filled]
    blocks: list[Block] = []
    for _, inside in groupby(filled, lambda each: each[0] // MOST_EPOCHS):
        blocks += _joined([Block(epoch, epoch, n) for epoch, n in inside], least)
    return blocks


def _joined(blocks: list[Block], least: int) -> list[Block]:
    """Return the blocks of one stretch of `MOST_EPOCHS` epochs, from those of one epoch."""
    size = 1
    while size < MOST_EPOCHS:
        size *= 2
        pairs: dict[int, list[Block]] = {}
        for block in blocks:
            pairs.setdefault(block.first // size * size, []).append(block)
        blocks = [block for start, inside in pairs.items() for block in _pair(start, size, inside, least)]
    return [block for block in blocks if block.n >= least]


def _pair(start: int, size: int, blocks: list[Block], least: int) -> list[Block]:
    """Return the blocks of two halves together; one that has too few reports is the only one."""
    enough = [block for block in blocks if block.n >= least]
    if enough == blocks:
        return blocks
    if len(blocks) > 2:  # one half is a small block, the other several
        return enough
    return [Block(start, start + size - 1, sum(block.n for block in blocks))]
