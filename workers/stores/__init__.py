"""Redis and Qdrant behind small ports, each with its in-memory twin."""
