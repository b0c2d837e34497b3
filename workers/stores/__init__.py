"""Redis and Qdrant behind small ports, with in-memory implementations."""
