"""Studies by simulation: coverage, accuracy, power, and whether plans reach their errors."""
