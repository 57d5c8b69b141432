"""Answer parsers: from a text to the answer that it gives, or `Unparseable`."""
