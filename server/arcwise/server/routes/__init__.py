"""HTTP routes: one module per concept."""

from arcwise.server.routes.admin import admin_routes
from arcwise.server.routes.estimates import Estimates
from arcwise.server.routes.health import health_routes
from arcwise.server.routes.ingest import INGEST_PATH, Ingest, task_in
from arcwise.server.routes.tasks import reader_routes

__all__ = ["INGEST_PATH", "Estimates", "Ingest", "admin_routes", "health_routes", "reader_routes", "task_in"]
