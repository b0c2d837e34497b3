"""Another number of partitions: a copy of the log, and a rebuild from it."""
