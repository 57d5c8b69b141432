"""BLEURT: a trained model's rating of how well an answer conveys a reference's content.

Sellam et al. 2020, arXiv 2004.04696. BLEURT needs the authors' package, which is not on PyPI, and
one of their checkpoints:

    pip install git+https://github.com/google-research/bleurt
    task: {name: natural_instructions, metrics: [{name: bleurt, checkpoint: ~/BLEURT-20}]}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import ConfigError


class BleurtMetric:
    """Scores an answer with BLEURT, using the authors' package.

    Args:
        checkpoint: Folder of the trained model.
    """

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = Path(checkpoint).expanduser()
        if not self._checkpoint.is_dir():
            remedy = "Download one (https://github.com/google-research/bleurt); name its folder."
            raise ConfigError(f"There is no BLEURT checkpoint at {self._checkpoint}.", remedy)
        try:
            from bleurt.score import BleurtScorer
        except ImportError:
            raise ConfigError(
                "The metric 'bleurt' needs the package bleurt, which is not installed.",
                "pip install git+https://github.com/google-research/bleurt",
            ) from None
        self._scorer: Any = BleurtScorer(str(self._checkpoint))

    def fingerprint(self) -> str:
        """Return the metric's identity: ``bleurt`` and the checkpoint's name."""
        return f"bleurt {self._checkpoint.name}"

    def score(self, answer: str, references: Sequence[str]) -> float:
        """Return the highest score over the references, usually but not always from 0 to 1."""
        answers = [answer] * len(references)
        return float(max(self._scorer.score(references=list(references), candidates=answers)))
