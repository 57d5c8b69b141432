"""Compares an answer with reference answers, and selects the part of the answer to compare.

Measures return the best value over the references, a number from 0 to 1 or a bool. A base model
goes on to write another input after its answer. The place at which the answer is cut changes
ROUGE-L by ten points, so tasks have an option for it.

>>> exact_match(" Yes.", ["yes"]), token_f1("the cat sat", ["A cat sat down"])
(True, 0.8)

Two metrics compare by a trained model. BERTScore (Zhang et al. 2020, arXiv 1904.09675) compares
token by token. The weights are downloaded once or read from a folder:

    pip install bert-score
    task: {name: natural_instructions, metrics: [{name: bertscore, model: roberta-large}]}

BLEURT (Sellam et al. 2020, arXiv 2004.04696) rates how well an answer conveys a reference's
content. It needs the authors' package, which is not on PyPI, and one of their checkpoints:

    pip install git+https://github.com/google-research/bleurt
    task: {name: natural_instructions, metrics: [{name: bleurt, checkpoint: ~/BLEURT-20}]}
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.plugin import Metric
from harness.scoring.text import fold_case, normalize_text
from harness.scoring.text import words as text_words

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORD = re.compile(r"[a-z0-9]+")
_NOT_ASCII_WORD = re.compile(r"[^\W\x00-\x7f]")

MEMORABLE = 2_000  # maximum characters of a text whose words are cached


def first_line(text: str) -> str:
    """Return the first non-blank line without leading white space, or "" if there is none."""
    return next(iter(text.strip().splitlines()), "")


def before_stop(text: str, stops: Sequence[str]) -> str:
    """Return the text up to the earliest stop sequence, if any, without leading white space."""
    text = text.lstrip()
    end = len(text)
    for stop in stops:
        position = text.find(stop)
        if position >= 0:
            end = min(end, position)
    return text[:end]


def bare(text: str) -> str:
    """Return the text in lower case, without surrounding white space and final periods."""
    # Articles and punctuation stay: without them, different one-letter answers would be equal.
    return text.strip().lower().rstrip(".")


def exact_match(answer: str, references: Iterable[str]) -> bool:
    """Return whether the answer equals a reference after `bare` is applied to both."""
    bare_answer = bare(answer)
    return any(bare_answer == bare(reference) for reference in references)


def token_f1(answer: str, references: Iterable[str]) -> float:
    """Return the highest F1 of words over the references, as in SQuAD (Rajpurkar et al. 2016)."""
    return max([_f1(answer, reference) for reference in references], default=0.0)


def _f1(answer: str, reference: str) -> float:
    answer_words = _content_words(answer)
    reference_words = _content_words(reference)
    if not answer_words or not reference_words:  # only articles and punctuation
        return float(answer_words == reference_words and bare(answer) == bare(reference))
    common = Counter(answer_words) & Counter(reference_words)
    return 2 * common.total() / (len(answer_words) + len(reference_words))


def _content_words(text: str) -> list[str]:
    """Return the words without articles and punctuation, in lower case."""
    lowered = text.lower().translate(_NO_PUNCTUATION)
    return _ARTICLE.sub(" ", lowered).split()


def named_label(answer: str, labels: Collection[str]) -> str | None:
    """Return the longest label that the answer equals or begins with, or None.

    `bare` is applied to the answer, and must already have been applied to the labels. A label that
    ends within a word of the answer does not count.
    """
    bare_answer = bare(answer)
    matches = []
    for label in labels:
        inside_a_word = label[-1:].isalnum() and bare_answer[len(label) :][:1].isalnum()
        begins = bool(label) and bare_answer.startswith(label) and not inside_a_word
        if begins or bare_answer == label:
            matches.append(label)
    return max(matches, key=len, default=None)


def rouge_l(answer: str, references: Iterable[str]) -> float:
    """Return the answer's highest ROUGE-L over the references, from 0 to 1 (Lin 2004).

    ROUGE-L is the F-measure of the longest common subsequence of `tokens`, as in rouge-score 0.1.2
    with its stemmer. This takes a fifth of that library's time: stems and short texts are cached,
    and each row of the dynamic programming table is one integer (Hyyrö 2004).
    """
    words = tokens(answer)
    values = [_f_measure(tokens(reference), words) for reference in references]
    return max(values, default=0.0)


def rouge_l_unicode(answer: str, references: Iterable[str]) -> float:
    """Return the highest ROUGE-L over the references, with words of all scripts.

    It equals `rouge_l` if all letters are ASCII.

    Raises:
        Uncountable: If a text cannot be divided into words (`harness.scoring.text`).
    """
    words = unicode_tokens(answer)
    values = [_f_measure(unicode_tokens(reference), words) for reference in references]
    return max(values, default=0.0)


def drops_words(texts: Iterable[str]) -> bool:
    """Return whether `tokens` ignores letters or digits of a text, because they are not ASCII."""
    return any(not text.isascii() and _NOT_ASCII_WORD.search(text) for text in texts)


def covered(text: str, source: str) -> tuple[int, int]:
    """Return the number of `tokens` in ``text``, and how many occur in ``source`` in this order."""
    words = tokens(text)
    return len(words), _common(words, tokens(source))


def tokens(text: str) -> tuple[str, ...]:
    """Return the words (runs of ASCII letters and digits) in lower case.

    Words of four or more characters are stemmed.
    """
    return _cached_tokens(text) if len(text) <= MEMORABLE else _tokens(text)


def _tokens(text: str) -> tuple[str, ...]:
    stem = _stems()
    words = _WORD.findall(text.lower())
    return tuple([word if len(word) < 4 else stem(word) for word in words])


def unicode_tokens(text: str) -> tuple[str, ...]:
    """Return the words of any script, ignoring case. English words are stemmed as by `tokens`.

    Raises:
        Uncountable: As in `rouge_l_unicode`.
    """
    if text.isascii():
        return tokens(text)
    all_tokens: list[str] = []
    for word in text_words(fold_case(normalize_text(text))):
        for part in _unicode_word().findall(word):
            if part.isascii():
                all_tokens += tokens(part)
            else:
                all_tokens.append(part)
    return tuple(all_tokens)


@cache
def _unicode_word() -> Any:
    import regex  # takes 20 ms

    return regex.compile(r"[\p{L}\p{M}\p{N}]+")


_cached_tokens = lru_cache(2**12)(_tokens)  # references and answers repeat


@cache
def _stems() -> Callable[[str], str]:
    from harness.plugins.benchmarks.punkt import stem  # imports NLTK, which takes 0.4 s

    return lru_cache(2**16)(stem)


def _f_measure(reference: tuple[str, ...], words: tuple[str, ...]) -> float:
    if not (common := _common(reference, words)):
        return 0.0
    # Computed in the library's order, so that even the last bit is equal.
    precision = common / len(words)
    recall = common / len(reference)
    return 2 * precision * recall / (precision + recall)


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """Return the length of the longest common subsequence of two word sequences."""
    if first == second:
        return len(first)
    positions: dict[str, int] = {}
    for number, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << number
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        if word in positions:
            met = row & positions[word]
            row = ((row + met) | (row - met)) & full
    return len(first) - row.bit_count()


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
            problem = f"The metric 'bertscore' cannot load {model!r} ({error!r})."
            remedy = "Name a model or folder that exists; set 'layer' if it is not a published one."
            raise ConfigError(problem, remedy) from None

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
