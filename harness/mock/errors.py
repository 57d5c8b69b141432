"""What can be wrong with how the mock is set up or asked."""

from __future__ import annotations


class MockError(ValueError):
    """An option is not valid; the message is one line and says what would be."""


class NoAnswer(LookupError):
    """The recording holds no answer for a conversation."""
