"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""
