"""The embedded stack: broker, Redis and Qdrant as child processes on the loopback address."""
