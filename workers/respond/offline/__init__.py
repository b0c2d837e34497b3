"""Replies without a language model: the lines of memory that answer a question are quoted."""
