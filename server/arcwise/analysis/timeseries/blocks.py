"""Epochs in blocks of a fixed length: no two sums that are shown differ by fewer reports than a minimum.

Who may ask for any range takes one sum from another, and what is left is as good as shown. So counts are
shown as sums of whole blocks, each of at least the minimum; however such sums are combined, what is left is
made of whole blocks. Where blocks lie is fixed, whatever is reported: blocks that followed the numbers of
reports would come apart while others fill, and an old epoch would be the difference of two answers.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Block(NamedTuple):
    """Epochs from `first` to `last`, both included, and how many reports they have: at least one."""

    first: int
    last: int
    n: int

    def __contains__(self, epoch: object) -> bool:
        assert isinstance(epoch, int)  # noqa: S101 (narrows the type for the checker)
        return self.first <= epoch <= self.last


def blocks_of(reports: Mapping[int, int], least: int, *, size: int = 1, anchor: int = 0) -> list[Block]:
    """Return the blocks in which epochs are shown, in order; epochs outside all blocks are withheld.

    `reports` is the number of reports by epoch, and `least` the number that a block must have: up to 1, every
    epoch with reports is a block, whatever the size. A block has `size` epochs; one starts at the epoch
    `anchor`, and the others at whole numbers of blocks from it.

    Examples
    --------
    >>> blocks_of({8: 50, 9: 60, 10: 30, 12: 200}, 100, size=2)
    [Block(first=8, last=9, n=110), Block(first=12, last=13, n=200)]
    """
    filled = sorted((epoch, n) for epoch, n in reports.items() if n)
    if least <= 1:
        return [Block(epoch, epoch, n) for epoch, n in filled]
    blocks = []
    for number, inside in groupby(filled, lambda each: (each[0] - anchor) // size):
        start = anchor + number * size
        blocks.append(Block(max(start, 0), start + size - 1, sum(n for _, n in inside)))
    return [block for block in blocks if block.n >= least]
