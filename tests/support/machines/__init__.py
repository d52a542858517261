"""A machine in a folder with the deployment of examples/, and devices that report to it."""

from __future__ import annotations

from tests.support.machines.load import Load
from tests.support.machines.machine import DEPLOYMENT, Machine, find_program

__all__ = ["DEPLOYMENT", "Load", "Machine", "find_program"]
