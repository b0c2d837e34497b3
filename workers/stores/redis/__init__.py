"""Redis: its connection, its keys, and hashes that are written piece by piece."""
