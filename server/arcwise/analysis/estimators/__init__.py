"""Estimators of single quantities, and `estimation`, which computes all of them.

No module here needs a server: an array of counts is enough, from a store, a file or a data lake.
"""

__all__: list[str] = []
