"""The log and its clients: topics, records, publisher, readers, consumers, the HTTP client. No store, no model."""
