"""Finite kernels with integer weights: the objects that privacy statements are about."""

from arcwise.kernels.certificate import Certificate, exp_lower_bound
from arcwise.kernels.window import WindowKernel

__all__ = ["Certificate", "WindowKernel", "exp_lower_bound"]
