"""Probes of an OpenAI-compatible endpoint: address, limits, abilities, speed."""
