"""The Kafka plane: topics, records, publisher, readers, client, group consumers. Knows no store and no model."""
