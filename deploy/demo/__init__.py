"""The demo: a conversation of our own, and the reading of conversations from files."""
