"""Recall: the sources of context that strategies search, and what they share."""
