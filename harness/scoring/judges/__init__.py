"""Models that judge answers; a module with a leading underscore is what several of them share."""
