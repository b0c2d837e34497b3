"""Changes the number of partitions by a copy of the log and a rebuild from it."""
