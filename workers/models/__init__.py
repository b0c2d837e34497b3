"""Language, embedding and compression models behind small ports, each with its offline twin."""
