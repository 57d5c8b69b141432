"""BERTScore: compares an answer with a reference, token by token, using a language model.

Zhang et al. 2020, arXiv 1904.09675. The weights are downloaded once or read from a folder:

    pip install bert-score
    task: {name: natural_instructions, metrics: [{name: bertscore, model: roberta-large}]}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import ConfigError


class BertScoreMetric:
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
