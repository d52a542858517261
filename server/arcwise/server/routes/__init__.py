"""HTTP routes, one module per concept; `arcwise.server.collect.ingest` has the route of reports."""

__all__: list[str] = []
