"""Builds and closes every client, for the settings of the live generation."""
