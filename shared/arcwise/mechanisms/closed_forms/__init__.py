"""Closed forms of the continuous mechanisms on [0, 1] and on circles, which the integer kernels approximate.

Each file is one family; import from the files. They import `math` only, and numpy and scipy inside the
functions that need them, because devices import this package.
"""

__all__: list[str] = []
