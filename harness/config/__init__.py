"""Configuration: settings from the environment, run files, overrides and variants."""
