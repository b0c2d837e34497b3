"""The handlers of the gateway's routes."""
