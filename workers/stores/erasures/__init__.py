"""Ledgers of erasures: in Redis, in a file, and in memory."""
