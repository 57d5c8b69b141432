"""Measures of an answer against reference texts: ROUGE-L, exact match, token F1, labels.

Each takes the answer and its references and gives the best over these, a number from 0 to 1 or a
bool; what part of an answer is measured is `harness.scoring.truncation`'s.
"""
