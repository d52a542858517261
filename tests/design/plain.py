"""One plain linear program, without symmetry, cuts or multipliers: what the clever ones are compared with."""

import math
from typing import Any

import numpy as np
from scipy.optimize import linprog

__all__ = ["brute_force"]


def brute_force(epsilon: float, inputs: int, outputs: np.ndarray[Any, Any], *, unbiased: bool) -> float:
    """Return the least worst case at the inputs with these outputs, by one plain program, on [-1, 1]."""
    x = np.linspace(-1, 1, inputs)
    k, power = len(outputs), 2 if unbiased else 1
    columns = inputs * k + k + 1
    cost = np.zeros(columns)
    cost[-1] = 1
    upper, equal, right = [], [], []
    for i in range(inputs):
        row = np.zeros(columns)
        row[i * k : (i + 1) * k] = np.abs(outputs - x[i]) ** power
        row[-1] = -1
        upper.append(row)
        total = np.zeros(columns)
        total[i * k : (i + 1) * k] = 1
        equal.append(total)
        right.append(1.0)
        if unbiased:
            mean = np.zeros(columns)
            mean[i * k : (i + 1) * k] = outputs
            equal.append(mean)
            right.append(x[i])
        for j in range(k):
            low, high = np.zeros(columns), np.zeros(columns)
            low[[i * k + j, inputs * k + j]] = -1, 1
            high[[i * k + j, inputs * k + j]] = 1, -math.exp(epsilon)
            upper += [low, high]
    result = linprog(cost, A_ub=np.array(upper), b_ub=np.zeros(len(upper)), A_eq=np.array(equal), b_eq=right)
    return float(result.fun)
