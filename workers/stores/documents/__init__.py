"""Stored documents: packed, and sealed with the data key of their conversation."""
