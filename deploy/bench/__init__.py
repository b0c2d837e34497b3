"""Measurements: generated load, what it cost, whether its result is right, and reports."""
