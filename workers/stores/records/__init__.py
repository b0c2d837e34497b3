"""Small records of a deployment and of a generation, in Redis."""
