"""Imports the exports of other products into the log."""
