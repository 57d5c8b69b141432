"""Maps texts by t-SNE (van der Maaten and Hinton 2008), which puts similar texts near each other.

Figure 2b of Lior et al. 2025 (arXiv 2503.06573) is such a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.datasets.folder import read_jsonl
from harness.errors import ConfigError, DataInvalid
from harness.extras import import_extra

MIN_TEXTS = 5
MAX_TEXTS = 5_000  # t-SNE of more takes minutes, and the points hide each other
THREADS_FROM = 1_000  # texts
PERPLEXITY, SEED = 30.0, 0
REMEDY = 'Write {"text": ..., "embedding": [numbers]} on each line.'


class _Line(msgspec.Struct):
    text: str
    embedding: list[float]


def embedding_map(texts: Sequence[str], embeddings: Path | None = None) -> NDArray[np.float64]:
    """Return the positions of n different texts on a map, (n, 2).

    ``embeddings`` is a JSONL file with an embedding of each text (default: TF-IDF vectors).
    """
    if not MIN_TEXTS <= len(texts) <= MAX_TEXTS:
        problem = f"A map needs {MIN_TEXTS} to {MAX_TEXTS:,} different texts, not {len(texts):,}."
        raise ConfigError(problem, "Choose a part of the data with -o.")
    vectors: Any
    if embeddings is None:
        text_features = import_extra("sklearn.feature_extraction.text", "build")
        vectors = text_features.TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    else:
        vectors = _read(embeddings, texts)
    manifold = import_extra("sklearn.manifold", "build")
    options = {"perplexity": min(PERPLEXITY, (len(texts) - 1) / 3), "random_state": SEED}
    projection = manifold.TSNE(metric="cosine", init="random", **options)
    # OpenMP's threads wait in busy loops: for 61 texts, two take 20 times the CPU time of one.
    threads = 1 if len(texts) < THREADS_FROM else None
    with import_extra("threadpoolctl", "build").threadpool_limits(threads):
        return np.asarray(projection.fit_transform(vectors), np.float64)


def _read(path: Path, texts: Sequence[str]) -> NDArray[np.float64]:
    try:
        lines = [msgspec.convert(row, _Line) for row in read_jsonl(path)]
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{path}: not an embedding ({error}).", REMEDY) from None
    found = {line.text: line.embedding for line in lines}
    lacking = [text for text in texts if text not in found]
    if lacking:
        problem = f"{path} has no embedding of {len(lacking):,} texts, such as {lacking[0]!r:.80}."
        raise DataInvalid(problem, REMEDY)
    rows = [found[text] for text in texts]
    if not rows[0] or len({len(row) for row in rows}) > 1:
        raise DataInvalid(f"{path}: the embeddings are empty or differ in length.", REMEDY)
    return np.array(rows, np.float64)
