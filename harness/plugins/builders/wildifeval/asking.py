"""The questions that a build asks models, their answers, and the prompts of its stages.

The probability of a yes is computed from the log-probabilities of the first tokens. If the model
does not return them, or the settings ask for votes, it is the share of yes among the model's votes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from harness.errors import ConfigError
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES
from harness.plugins.builders.draws import Draws
from harness.plugins.builders.wildifeval.curation_file import FilterSection, PromptName
from harness.prompts import Template, read, read_file
from harness.records import Decoding, Logprobs, Request
from harness.scoring.judges import TOKENS, VOTES, fenced, mean, vote, yes_probability

T = TypeVar("T")

VOTING_TEMPERATURE = 0.7
THINKING_TOKENS = 4000  # a limit that leaves room for thinking before a yes or no

QUOTED = 3  # number of unreadable replies to quote in a message
LONGEST = 60  # characters of a quoted reply
AnswerOutcome = Literal["ok", "truncated", "refused", "empty"]


# What a question is about (a chat's id or a name), and a function that renders its prompt.
StageQuestion = tuple[str, Callable[[], str]]


class StageAnswer(Struct, frozen=True):
    """A model's answer, with the log-probabilities of its first tokens."""

    outcome: AnswerOutcome
    text: str = ""
    logprobs: Logprobs | None = None  # of the first tokens; None if missing or after thinking


# Inspects the first answers; raises an error if further answers like them would be useless.
Look = Callable[[Sequence[StageAnswer]], None]


class Asking(Protocol):
    """The interface by which a build asks its models."""

    def gives_logprobs(self, stage: str) -> bool:
        """Return whether the model of a stage, such as ``filter``, returns log-probabilities."""

    async def ask(
        self,
        stage: str,
        questions: Sequence[StageQuestion],
        decoding: Decoding,
        read: Callable[[StageAnswer], T],
        samples: int = 1,
        look: Look | None = None,
    ) -> list[list[T]]:
        """Ask a stage's model, and return its answers to each question, as parsed by ``read``.

        Each question gets ``samples`` answers. ``look`` inspects the first answers before the other
        questions are asked, and may raise an error.

        Raises:
            ConfigError: If the model does not support the decoding parameters.
            HarnessError: If some calls failed.
            Stopping: If the build was stopped or its budget is spent.
        """

    def facts(self) -> Mapping[str, Any]:
        """Return facts about the models and their calls, by their keys in the manifest."""


def top_share(
    probabilities: Mapping[str, float | None], share: float, seed: int
) -> tuple[set[str], float]:
    """Return the names with the highest probabilities, and their lowest probability (0 if none).

    Of the names with a probability, the fraction ``share`` (0 to 1) is returned, but at least one.
    The seed breaks ties.

    >>> top_share({"a": 0.9, "b": 0.1, "c": 0.4, "d": None}, 0.3, seed=0)
    ({'a'}, 0.9)
    """
    known = {name: found for name, found in probabilities.items() if found is not None}
    if not known:
        return set(), 0.0
    n = max(1, round(share * len(known)))
    order = Draws(seed, "selection").shuffled(list(known))
    # Ties are frequent: the share of five votes has only six values. A stable sort keeps the draw.
    order.sort(key=lambda name: -known[name])
    return set(order[:n]), known[order[n - 1]]


def times(by: FilterSection, gives_logprobs: bool) -> tuple[int, Decoding]:
    """Return a filter's number of answers to each question, and its decoding."""
    if by.votes is None and gives_logprobs:
        return 1, Decoding(temperature=0.0, max_tokens=by.max_tokens, logprobs=TOKENS)
    return by.votes or VOTES, Decoding(temperature=VOTING_TEMPERATURE, max_tokens=by.max_tokens)


async def yes_probabilities(
    asking: Asking, stage: str, questions: Sequence[StageQuestion], by: FilterSection
) -> list[float | None]:
    """Ask yes/no questions as ``by`` says, and return the probability of yes (0 to 1) for each.

    The probability is None if no reply to the question can be read.

    Raises:
        ConfigError: If none of the stage's first replies, refusals aside, can be read.
        HarnessError, Stopping: As in `Asking.ask`.
    """
    samples, decoding = times(by, asking.gives_logprobs(stage))
    read = _vote if decoding.logprobs is None else _by_tokens
    look = partial(_refuse_unreadable, stage, read)
    found = await asking.ask(stage, questions, decoding, read, samples, look)
    return [mean(each) for each in found]


def _vote(answer: StageAnswer) -> float | None:
    return vote(answer.text) if answer.outcome in ("ok", "truncated") else None


def _by_tokens(answer: StageAnswer) -> float | None:
    if answer.outcome == "refused":  # "No, I will not" is not a no
        return None
    found = yes_probability(answer.logprobs or ())
    return found.probability if found else None


def _refuse_unreadable(
    stage: str, read: Callable[[StageAnswer], float | None], first: Sequence[StageAnswer]
) -> None:
    replies = [answer for answer in first if answer.outcome != "refused"]
    if not replies or any(read(answer) is not None for answer in replies):
        return
    texts = dict.fromkeys(repr(answer.text[:LONGEST]) for answer in replies)
    without = read is _by_tokens and all(one.logprobs is None for one in replies)
    raise ConfigError(
        f"The stage {stage!r} was stopped because none of its first {len(replies)} replies can be "
        f"read: they say {', '.join(list(texts)[:QUOTED])}"
        f"{' and have no log-probabilities' if without else ''}. They are in the cache.",
        f"Let the model vote: filter.votes={VOTES}. A reasoning model also needs "
        f"filter.max_tokens={THINKING_TOKENS} and a server that separates its reasoning. "
        f"models.{stage} gives the stage another model (harness docs wildifeval_build).",
    )


# The fields that each template may use. It must use those in `NEEDED`, which hold untrusted text.
FIELDS: Mapping[PromptName, set[str]] = {
    "toxic": {"message"},
    "constrained": {"message"},
    "decompose": {"message"},
    "category": {"constraint", "categories"},
    "propose_domains": {"tasks", "n"},
    "merge_domains": {"names", "n"},
    "domain": {"message", "domains"},
}
NEEDED = {"message", "constraint", "tasks", "names"}


class CurationPrompts:
    """The prompt templates of a build. A user's file can replace any built-in template."""

    def __init__(self, own: Mapping[PromptName, Path]) -> None:
        self._prompts: dict[PromptName, Template] = {}
        for name, fields in FIELDS.items():
            where = f"prompts.{name}"
            prompt = read_file(own[name], where) if name in own else read(f"wildifeval/{name}")
            prompt.refuse_unknown(fields)
            if missing := sorted((fields & NEEDED) - prompt.names):
                raise ConfigError(f"{prompt.name} has no {{{{ {missing[0]} }}}}.", "Add it.")
            self._prompts[name] = prompt

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 (hex digits) of each template, by prompt name."""
        return {name: prompt.sha256 for name, prompt in self._prompts.items()}

    def text(self, name: PromptName, **fields: Any) -> str:
        """Return a prompt with its fields filled in, and tags around untrusted text."""
        if name == "category":
            fields["categories"] = dict(CATEGORIES)
        for field in NEEDED & fields.keys():
            if field == "tasks":
                fields[field] = [fenced(task, "message") for task in fields[field]]
            else:
                fields[field] = fenced(fields[field], field)
        return self._prompts[name].render(fields)


# By a phrase in the last line of a prompt, a plausible reply to it; "" is in every line.
SIMULATED = {
    "yes or no": "Yes",
    "numbered list": "1. Letters\n2. Stories\n3. Advice",
    "one kind": "Ensure Quality",
    "one domain": "1",
    # The last lines of the published prompts.
    "Answer:": "Yes",
    "List of": "1. Letters\n2. Stories\n3. Advice",
    "Your response:": "1",
    "Translated Task:": "Write a text. Translated Context:\nTranslated Constraints:\n"
    "1. The text should be complete.",
    "": "Task: Write a text.\nContext: none\nConstraints:\n"
    "1. The text should be what the message asks for.\n2. The text should be complete.",
}


def simulated_reply(request: Request) -> str:
    """Return a simulated model's reply to a stage's prompt."""
    last = request.messages[-1].content.rstrip().rpartition("\n")[2]
    return next(reply for sign, reply in SIMULATED.items() if sign in last)
