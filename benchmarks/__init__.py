"""What is measured: speeds side by side in one run, and studies of what estimates are worth."""
