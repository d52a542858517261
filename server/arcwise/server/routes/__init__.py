"""HTTP routes: one module per concept."""

from arcwise.server.routes.estimates import Estimates
from arcwise.server.routes.ingest import INGEST_OPENAPI, INGEST_PATH, Ingest
from arcwise.server.routes.tasks import reader_routes

__all__ = ["INGEST_OPENAPI", "INGEST_PATH", "Estimates", "Ingest", "reader_routes"]
