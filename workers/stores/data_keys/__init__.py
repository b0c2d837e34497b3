"""Data keys: what is stored of a conversation is sealed with one, and gone when it is destroyed."""
