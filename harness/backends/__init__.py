"""One provider protocol per file; what vendors import or raise stays here."""
