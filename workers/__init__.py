"""The runner, one package per stage, and the models and stores that they share."""
