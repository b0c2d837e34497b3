"""Language, embedding and compression models behind small ports, with offline implementations."""
