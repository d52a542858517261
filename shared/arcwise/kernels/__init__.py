"""Finite kernels with integer weights, to which all privacy statements refer.

A name is imported on first use, so a device that samples from one kernel loads one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel
    from arcwise.kernels.certificate import Certificate, exp_lower_bound
    from arcwise.kernels.circulant import CirculantKernel
    from arcwise.kernels.table import TableKernel
    from arcwise.kernels.window import WindowKernel

__all__ = ["Certificate", "CirculantKernel", "Kernel", "TableKernel", "WindowKernel", "exp_lower_bound"]

if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept any name
    __getattr__ = lazy_names(
        __name__,
        {
            "base": ("Kernel",),
            "certificate": ("Certificate", "exp_lower_bound"),
            "circulant": ("CirculantKernel",),
            "table": ("TableKernel",),
            "window": ("WindowKernel",),
        },
    )
