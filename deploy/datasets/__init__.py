"""Conversations in files: readers of them, and imports into the log."""
