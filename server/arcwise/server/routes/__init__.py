"""HTTP routes, one module per concept; that of reports is `arcwise.server.collect.ingest`."""

__all__: list[str] = []
