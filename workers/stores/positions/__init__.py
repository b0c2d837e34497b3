"""Handled positions of each stage's log, with the timers of idle sessions and the promotions."""
