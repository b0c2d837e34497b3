"""The demo: a bundled conversation, and the player for it."""
