"""Stage `wordcount`, an example: what a new stage consists of."""
