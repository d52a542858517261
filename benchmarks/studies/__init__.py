"""Studies by simulation: coverage, accuracy, power, and whether plans are reached."""
