"""Stage `respond`: retrieves memory and replies."""
