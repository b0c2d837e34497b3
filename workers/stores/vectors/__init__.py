"""Vector indexes: Qdrant by REST, and one in memory."""
