"""The Kafka plane: topics, codec, Faust app, keyed dispatch, client. Knows no store and no model."""
