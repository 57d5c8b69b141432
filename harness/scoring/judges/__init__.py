"""Models that judge: none is built in yet; third parties come in by ``harness.judges``."""
