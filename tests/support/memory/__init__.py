"""In-memory stand-ins of stores that production has on Redis, in files or in buckets only."""
