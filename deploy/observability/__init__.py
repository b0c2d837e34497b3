"""Health, metrics and alerts of a process."""
