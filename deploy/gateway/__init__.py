"""The HTTP gateway: memory over HTTP, for clients that do not reach Kafka."""
