"""Rules for English sentences: what one says of another, without a model."""
