"""Generations of the memory: promotion, repair, rebuild, diff."""
