"""Counts of raw reports, wherever they lie: wire bodies in Python, tables in a lake or a warehouse.

`bodies` decodes wire bodies by the thousand. `rules` has what every batch must satisfy, and the reasons
why one is not counted. `batches` counts bodies in this process; `table`, `sources` and
`queries` let an engine count.
"""

__all__: list[str] = []
