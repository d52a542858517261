"""Closed forms of continuous mechanisms on [0, 1] and on circles: what the integer kernels come close to.

One file is one family; import from it. They import `math` only, and numpy and scipy inside the functions that
need them, because devices import this package.
"""

__all__: list[str] = []
