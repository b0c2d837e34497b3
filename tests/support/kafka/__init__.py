"""Apache Kafka from Maven Central, as child processes: for tests and for trying things by hand."""
