"""Views of memory and of dead letters; what an operator does with a letter or with a record that stops a stage."""
