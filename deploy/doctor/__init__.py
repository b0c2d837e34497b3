"""Checks of the servers and of the model's endpoint: `eunoe doctor`."""
