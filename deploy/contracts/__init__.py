"""Writes the contracts for clients in any language, and the page of settings."""
