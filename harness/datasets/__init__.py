"""Finds, converts and reads data sets."""
