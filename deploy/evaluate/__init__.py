"""Evaluations on data that the user brings."""
