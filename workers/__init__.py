"""The runner, one room per stage, and beside them the models and stores."""
