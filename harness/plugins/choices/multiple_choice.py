"""Multiple choice over rows: lettered options, their order, and how an answer is scored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Strict

from harness import prompts
from harness.datasets.rows import Row
from harness.errors import DataInvalid, Unparseable
from harness.plugins.choices.extraction import (
    LETTERS,
    ChoiceExtraction,
)
from harness.records import Message, Request, Score, content_hash
from harness.scoring import CHOICE, is_blank
from harness.scoring.likelihoods import AnswerLikelihood, likelihood_request, read_likelihoods
from harness.tasks.items import CHOICES_FIELD, QuestionForm

TargetKind = Literal["index", "letter", "text"]
MOST_SHOWN = 40  # characters of a target in an error message

_extraction = lru_cache(maxsize=1024)(ChoiceExtraction)


def choice_texts(raw: object) -> tuple[str, ...]:
    """Return the texts of a row's options, given as a list."""
    if not isinstance(raw, list) or not all(
        isinstance(choice, str | int | float) for choice in raw
    ):
        remedy = 'Write "choices": ["…", "…"], or in a table the JSON list ["…", "…"].'
        raise DataInvalid("'choices' must be a list of texts.", remedy)
    texts = tuple(map(_text, raw))
    if not 2 <= len(texts) <= len(LETTERS):
        raise DataInvalid(f"'choices' has {len(texts)} options; it must have 2 to {len(LETTERS)}.")
    if any(map(is_blank, texts)) or len(set(texts)) < len(texts):
        raise DataInvalid("two 'choices' are equal, or one is empty.")
    return texts


def option_labels(raw: object, choices: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of a row's options, given as a list."""
    labels = tuple(map(_text, raw)) if isinstance(raw, list) else ()
    if len(set(labels)) != len(choices) or len(labels) != len(choices):
        raise DataInvalid("'choices' must have a different 'label' for each 'text'.")
    return labels


def right_choice(target: object, choices: Sequence[str], kind: TargetKind | None = None) -> int:
    """Return the index of the right option, given its index (from 0), letter or text.

    If ``kind`` is None, the target must not fit several options, such as one by its index and
    another by its text.
    """
    if not isinstance(target, str | int):
        raise DataInvalid("'target' must be the index, the letter or the text of one of 'choices'.")
    text = _text(target)
    meanings: dict[TargetKind, list[str]] = {
        "index": [] if isinstance(target, bool) else [str(index) for index in range(len(choices))],
        "letter": [*LETTERS[: len(choices)]],
        "text": [*choices],
    }
    places = set[int]()
    for meaning, names in meanings.items():
        if kind not in (None, meaning):
            continue
        if text in names:
            places.add(names.index(text))
        if meaning == "letter" and text.upper() in names:
            places.add(names.index(text.upper()))
    if len(places) == 1:
        return places.pop()
    which = "could mean several" if places else "is none"
    remedy = "Set task.choices.target to index, letter or text."
    if not places:
        last = LETTERS[len(choices) - 1]
        remedy = f"Write the index 0 to {len(choices) - 1}, a letter from A to {last}, or the text."
    raise DataInvalid(f"the target {text[:MOST_SHOWN]!r} {which} of the 'choices'.", remedy)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def chosen_details(chosen: int, right: int, n: int) -> Mapping[str, Any]:
    """Return the part of a score's details from which the position bias is computed.

    Positions are those in the order shown, from 0; ``n`` is the number of options.
    """
    return {"positions": {"chosen": chosen, "right": right, "of": n}}


class Options(Struct, frozen=True):
    """The options of a row in the order shown, with the labels by which the prompt names them."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]  # letters or numbers
    right: int  # index of the right one
    shown: bool = True  # whether the prompt contains their texts, so that their order may matter


@dataclass(frozen=True, slots=True)
class MultipleChoice(QuestionForm):
    """The settings of multiple choice, for rows with ``choices``.

    Args:
        by: ``letter``: the model writes a letter; ``letter_logprob``: the likeliest letter;
            ``choice_logprob``: the likeliest text of an option.
        shuffle: The seed of the options' order; None for the order in the row.
        target: The kind of the rows' targets; None if each of them can mean only one option.
    """

    by: Literal["letter", "letter_logprob", "choice_logprob"] = "letter"
    shuffle: Annotated[int, Strict()] | None = None
    target: TargetKind | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    # The last three are by likelihood.
    score_names: ClassVar[Sequence[str]] = (CHOICE, "acc_norm", "acc_bytes", "acc_tokens")
    example: ClassVar[Path] = Path(__file__).with_name("choices.jsonl")

    def settings(self) -> Sequence[Any]:
        """Return the values of all settings."""
        return astuple(self)

    @property
    def uses_likelihoods(self) -> bool:
        """Whether the log-likelihoods of given answers are compared."""
        return self.by != "letter"

    def template(self) -> prompts.Template:
        """Return the built-in template of the prompt."""
        return prompts.read_builtin(f"multiple_choice/{self.by}")

    def add_options(self, row: Row, instance: str) -> tuple[Row, Options]:
        """Build the options of a row, and add the fields that templates use.

        The fields are ``question``, ``choices`` in the order shown, ``options`` (one per line,
        after its letter), ``letters`` ("A, B or C") and ``target``, the right answer. If the row's
        labels are numbers and its options have none, they take the place of the letters.
        """
        for field in (CHOICES_FIELD, "target"):
            if field not in row:
                remedy = "Write a list of texts as 'choices', and the right one as 'target'."
                raise DataInvalid(f"the row has no {field!r}, for multiple choice.", remedy)
        if "messages" in row:
            problem = "a row cannot have both 'choices' and 'messages'."
            raise DataInvalid(problem, "Write the question as 'question'.")
        raw = row[CHOICES_FIELD]
        target = row["target"]
        kind = self.target
        labels: object = None
        if isinstance(raw, dict) and raw.keys() == {"text", "label"}:
            labels = raw["label"]
            raw = raw["text"]
        texts = choice_texts(raw)
        letters = tuple(LETTERS[: len(texts)])
        if labels is not None:
            names = option_labels(labels, texts)
            if str(target) in names:
                target = names.index(str(target))
                kind = "index"
            if "".join(names).isdecimal() and not re.search(r"\d", " ".join(texts)):
                letters = names
        order = list(range(len(texts)))
        if self.shuffle is not None and _may_shuffle(row):
            order.sort(key=lambda index: content_hash([self.shuffle, instance, index]))
        right = order.index(right_choice(target, texts, kind))
        options = Options(tuple(texts[index] for index in order), letters, right)
        fields: Row = {
            CHOICES_FIELD: list(options.texts),
            "options": "\n".join(
                f"{letter}. {text}" for letter, text in zip(letters, options.texts, strict=True)
            ),
            "letters": f"{', '.join(letters[:-1])} or {letters[-1]}",
            "target": self.answers(options)[right],
        }
        if "question" not in row and "prompt" in row:
            fields["question"] = row["prompt"]
        return {**row, **fields}, options

    def note_prompt(self, options: Options, prompt: str) -> Options:
        """Return the options, with a note of whether the prompt contains their texts."""
        return replace(options, shown=all(text in prompt for text in options.texts))

    def answers(self, options: Options) -> Sequence[str]:
        """Return the possible answers, texts or letters, in the order of the options."""
        return options.texts if self.by == "choice_logprob" else options.labels

    def wrong_answer(self, options: Options, instance: str) -> str:
        """Return a wrong answer, chosen by the id of the instance."""
        n = len(options.texts)
        return self.answers(options)[(options.right + 1 + crc32(instance.encode()) % (n - 1)) % n]

    def likelihood_request(self, options: Options, request: Request) -> Request:
        """Return a request for the log-likelihoods of all answers.

        An answer follows the prompt after a space, as in lm-evaluation-harness.
        """
        context = ""
        for message in request.messages:
            if message.role == "assistant":
                context += f" {message.content}\n\n"
            else:
                context += message.content.rstrip() + "\n\n" * (message.role == "system")
        answers = [Message("assistant", f" {answer}") for answer in self.answers(options)]
        messages = [Message("user", context), *answers]
        return likelihood_request(request, messages, len(answers))

    def prompt_warnings(self, options: Options, messages: Sequence[Message]) -> Iterator[str]:
        """Yield a sentence if the model shall name an option, but the prompt has none of them."""
        prompt = "\n".join(message.content for message in messages).casefold()
        if self.by != "choice_logprob" and not any(
            text.casefold() in prompt for text in options.texts
        ):
            yield "The prompt has none of the choices: write {{ options }} into task.prompt."

    def read_answer(self, options: Options, text: str) -> str:
        """Return the answer that a reply chooses: a letter, or an option's text.

        Raises:
            Unparseable: If the reply chooses no answer.
        """
        if not self.uses_likelihoods:
            numbers = () if options.labels[0] in LETTERS else options.labels
            letter = _extraction(options.texts, numbers).read(text)
            return options.labels[LETTERS.index(letter)]
        return self.answers(options)[_likeliest(self._sums(options, text))]

    def score(self, options: Options, text: str) -> dict[str, Score]:
        """Return the score ``choice``, which is the verdict, and normalised accuracies.

        By likelihood, the answer with the largest sum of log-probabilities is chosen, as in
        lm-evaluation-harness. For texts, ``acc_norm`` divides the sums by the number of characters,
        ``acc_bytes`` by bytes, and ``acc_tokens`` by tokens, if the server reports them.

        Raises:
            Unparseable: If the reply chooses no option.
        """
        chosen = self.answers(options).index(self.read_answer(options, text))
        passed = chosen == options.right
        reason = "" if passed else f"{options.labels[chosen]} is not the right option"
        n = len(options.texts)
        details = chosen_details(chosen, options.right, n) if options.shown else {}
        scores = {CHOICE: Score(passed, passed, reason, details)}
        if self.by != "choice_logprob":
            return scores
        sums = self._sums(options, text)
        lengths: dict[str, list[int | None]] = {
            "acc_norm": [len(answer) for answer in options.texts],
            "acc_bytes": [len(answer.encode("utf-8", "replace")) for answer in options.texts],
            "acc_tokens": [likelihood.tokens for likelihood in sums],
        }
        for name, divisors in lengths.items():
            if all(divisors):
                scores[name] = Score(_likeliest(sums, divisors) == options.right)
        return scores

    def _sums(self, options: Options, text: str) -> Sequence[AnswerLikelihood]:
        """Return the answers' log-likelihoods. A reply that is an answer is the likeliest."""
        answers = self.answers(options)
        try:
            return read_likelihoods(text, len(answers))
        except Unparseable:
            if text.strip() not in answers:
                raise
        return [AnswerLikelihood(-1e9 * (answer != text.strip()), True, 1) for answer in answers]


def _may_shuffle(row: Row) -> bool:
    """Return whether a row's options may be shuffled: its field ``shuffle``, by default true."""
    words = {"true": True, "false": False, "": True}
    value = row.get("shuffle", True)
    if isinstance(value, str):  # in a table
        value = words.get(value.strip().lower(), value)
    if value is None:
        return True
    if not isinstance(value, bool):
        raise DataInvalid(f"'shuffle' must be true or false, not {value!r:.40}.")
    return value


def _likeliest(
    sums: Sequence[AnswerLikelihood], divisors: Sequence[int | None] | None = None
) -> int:
    """Return the first index of the largest log-likelihood, divided by ``divisors``."""
    pairs = zip(sums, divisors or [1] * len(sums), strict=True)
    values = [likelihood.total / (divisor or 1) for likelihood, divisor in pairs]
    return values.index(max(values))
