"""Designing mechanisms: tables by linear programming, the bound that no mechanism beats, m-piece densities.

Solvers run here, where tasks are made; devices only sample from the integers and check their certificate.
"""

from arcwise.server.design.measures import lower_bound, worst_case
from arcwise.server.design.minimax import minimax

__all__ = ["lower_bound", "minimax", "worst_case"]
