"""Finite kernels with integer weights: the objects that privacy statements are about."""

from arcwise.kernels.base import Kernel
from arcwise.kernels.certificate import Certificate, exp_lower_bound
from arcwise.kernels.circulant import CirculantKernel
from arcwise.kernels.table import TableKernel
from arcwise.kernels.window import WindowKernel

__all__ = ["Certificate", "CirculantKernel", "Kernel", "TableKernel", "WindowKernel", "exp_lower_bound"]
