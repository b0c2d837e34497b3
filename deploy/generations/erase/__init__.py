"""Erasure: what is to go, the steps that make it go, and the receipt."""
