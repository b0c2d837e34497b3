"""Soak test: mixed traffic at a set rate, figures over time, and a verdict on whether they held."""
