"""Estimators of single quantities, and `estimation`, which makes all of them.

Nothing here knows a server: a bare array of counts is enough, from a store, a file or a data lake.
"""

__all__: list[str] = []
