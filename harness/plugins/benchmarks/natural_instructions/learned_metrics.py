"""Metrics that compare an answer with a reference by a trained model.

BERTScore (Zhang et al. 2020, arXiv 1904.09675) compares them token by token. The weights are
downloaded once or read from a folder:

    pip install bert-score
    task: {name: natural_instructions, metrics: [{name: bertscore, model: roberta-large}]}

BLEURT (Sellam et al. 2020, arXiv 2004.04696) rates how well an answer conveys a reference's
content. It needs the authors' package, which is not on PyPI, and one of their checkpoints:

    pip install git+https://github.com/google-research/bleurt
    task: {name: natural_instructions, metrics: [{name: bleurt, checkpoint: ~/BLEURT-20}]}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.plugin import Metric


class BertScoreMetric(Metric):
    """Scores an answer with the F1 of BERTScore, using the authors' package.

    Args:
        model: Name of the model on the Hugging Face hub, or the folder of its weights.
        layer: The layer that provides the compared vectors. Required for a model unknown to the
            package.
        baseline: Rescale scores with the package's baseline, so that they spread over about 0 to 1.
    """

    def __init__(
        self, model: str = "roberta-large", layer: int | None = None, baseline: bool = False
    ) -> None:
        try:
            import bert_score
        except ImportError:
            raise ConfigError(
                "The metric 'bertscore' needs the package bert-score, which is not installed.",
                "pip install bert-score",
            ) from None
        options = {"model_type": model, "num_layers": layer, "lang": "en"}
        try:
            self._scorer: Any = bert_score.BERTScorer(**options, rescale_with_baseline=baseline)
        except (KeyError, OSError, ValueError) as error:
            said = f"The metric 'bertscore' cannot load {model!r} ({error!r})."
            remedy = "Name a model or folder that exists; set 'layer' if it is not a published one."
            raise ConfigError(said, remedy) from None

    def fingerprint(self) -> str:
        """Return the package's description of the metric, such as its model, layer and version."""
        return str(self._scorer.hash)

    def score(self, answer: str, references: Sequence[str]) -> float:
        """Return the highest F1 over the references; an empty answer scores 0."""
        if not answer.strip():
            return 0.0
        _, _, f1 = self._scorer.score([answer], [list(references)])
        return float(f1[0])


class BleurtMetric(Metric):
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
