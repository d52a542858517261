"""HTTP routes: one module per concept."""

from arcwise.server.routes.ingest import Ingest
from arcwise.server.routes.tasks import reader_routes

__all__ = ["Ingest", "reader_routes"]
