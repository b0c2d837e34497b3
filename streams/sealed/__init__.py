"""Sealed records: the envelope, and what is sealed of each topic."""
