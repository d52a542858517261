"""Designs of mechanisms: tables by linear programming, lower bounds for all mechanisms, m-piece densities.

Solvers run here, when tasks are made; devices only sample from the integers and check their certificate.
"""

from arcwise.analysis.design.designer import Figure, figures, minimax
from arcwise.analysis.design.measures import lower_bound, worst_case
from arcwise.analysis.design.pieces_search import FoundPieces, search_pieces
from arcwise.analysis.design.piecewise import Pieces, TwoAtoms, optimal_pieces, randomized_response

__all__ = [
    "Figure",
    "FoundPieces",
    "Pieces",
    "TwoAtoms",
    "figures",
    "lower_bound",
    "minimax",
    "optimal_pieces",
    "randomized_response",
    "search_pieces",
    "worst_case",
]
