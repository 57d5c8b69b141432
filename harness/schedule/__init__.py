"""The scheduler: what is owed, who works on it, and how far it is."""
