"""The room of the stage that retrieves and replies."""
