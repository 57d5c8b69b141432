"""Finds, fetches, converts and reads data sets."""
