"""Counts of raw reports from any place: wire bodies in Python, tables in a lake or a warehouse.

`bodies` decodes thousands of wire bodies together. `rules` defines the conditions under which a batch is
counted, and the reasons for rejection. `batches` counts bodies in this process. `table`, `sources` and
`queries` let an engine count batches in tables.
"""

__all__: list[str] = []
