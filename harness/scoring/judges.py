"""The shared parts of judges, models that score answers, and the judge ``yes_no``.

Most judges consist of a prompt template and a parser of replies. The judged text is between tags
that it cannot close. A yes or no is read from log-probabilities (`yes_probability`) or from sampled
votes (`vote`)."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from harness.errors import ConfigError, Unparseable, reraise_as, suggest_name
from harness.ports import LOGPROBS, Judge, Task, overrides_method
from harness.prompts import Template, is_prompt_path, prompt_names, read_builtin, read_file
from harness.records import (
    Criterion,
    Decoding,
    Instance,
    Logprobs,
    Message,
    Question,
    Reply,
    Request,
    Score,
    TokenLogprob,
)
from harness.scoring.conclusions import CROSSES, without_struck_out
from harness.scoring.quotations import replace_quotations

MIN_YES_PROBABILITY = 0.5  # that counts as yes

QUOTATION_INTRODUCTION = (
    r"(?:(?m:^)[*_ \t]*the\s+\w+['\u2019]s\s+(?:output|answer|response|reply|text)\b"
    r"|(?<!\bI )\b(?:wrote|writes|sa(?:id|ys)|stated|states|reads|replie[sd]|respond(?:s|ed)"
    r"|claim(?:s|ed)|insists|insisted|quot(?:e|es|ed|ing|ation)|excerpt)\b)[^\n:]{0,30}:"
)
"""A regular expression for words that introduce a quotation, such as "The model wrote:"."""
_INTRODUCED_LINE = re.compile(
    rf"^([^\n]*{QUOTATION_INTRODUCTION}[*_ \t]*\n\s*+)[^\n]+", re.I | re.M
)


def without_quotations(reply: str) -> str:
    """Return a judge's reply with "…" in place of what it quotes: see `replace_quotations`.

    The line after words such as "The model wrote:" is a quotation even without quotation marks.
    Text that is struck out is dropped.
    """
    return _INTRODUCED_LINE.sub(r"\1 … ", replace_quotations(without_struck_out(reply)))


class JudgePrompt:
    """A judge's prompt template: a built-in template by name, or a user's file by path.

    The template may also use the field ``asked``, which is the task's `Task.instruction`.

    Args:
        prompt: The name of a built-in template, or a path, which has a slash or ends in ``.jinja``.
        fields: The fields that the template may use.
        task: The task whose answers are judged.
        judged: The fields of judged answers, which the template must use.
        show_prompt: Whether ``asked`` is the last message of the prompt if the task has no
            instruction.

    Raises:
        ConfigError: If there is no such template, or if it lacks a required field or has an
            unknown one.
    """

    def __init__(
        self,
        prompt: str,
        fields: Collection[str],
        task: Task[Any],
        judged: Collection[str] = ("text",),
        *,
        show_prompt: bool = False,
    ) -> None:
        builtin = {name.partition("/")[2] for name in prompt_names("judges")}
        if prompt in builtin:
            self._prompt: Template = read_builtin(f"judges/{prompt}")
        elif is_prompt_path(prompt):
            self._prompt = read_file(Path(prompt), f"prompt ({prompt})")
        else:
            problem = f"there is no judge prompt named {prompt!r}. A file path needs a slash."
            raise ConfigError(f"prompt: {problem}", suggest_name(prompt, builtin))
        self.sha256 = self._prompt.sha256
        self._instruction: Callable[[Instance[Any]], str] | None = None
        if overrides_method(task, Task.instruction):
            self._instruction = task.instruction
        elif show_prompt:
            self._instruction = lambda instance: task.messages(instance, ())[-1].content
        available = {*fields, *judged, "asked"}
        self._prompt.check_fields(available)
        for missing in sorted(set(judged) - self._prompt.fields):
            problem = f"{self._prompt.name} has no {{{{ {missing} }}}}, so the judge would not see"
            raise ConfigError(f"{problem} the answer.", "Add it.")
        if self._instruction is None:
            available.remove("asked")
        with reraise_as(ConfigError):  # before the run starts, not at the first answer
            self._prompt.render(dict.fromkeys(available, ""))

    def render(
        self, instance: Instance[Any], judged: Mapping[str, str], **fields: Any
    ) -> tuple[Message, ...]:
        """Return the prompt for the judge's model: one message, with judged answers between tags.

        Args:
            instance: The instance.
            judged: The judged answers by field of the template.
            fields: The values of other fields.

        Raises:
            DataInvalid: As in `Template.render`.
        """
        if self._instruction:
            fields["asked"] = fenced(self._instruction(instance), "task")
        fields |= {name: fenced(text) for name, text in judged.items()}
        return (Message("user", self._prompt.render(fields)),)


class PromptJudge(Judge):
    """Base class of judges that ask about answers with a template and average several replies.

    Args:
        prompt: The template.
        decoding: The decoding parameters of the judge's model.
        samples: The number of replies to each question.
        where: The group, or list of groups, of the instances to judge, by label. None judges all.

    Raises:
        ConfigError: If ``samples``, or a parameter in ``decoding``, is too low.
    """

    def __init__(
        self,
        prompt: JudgePrompt,
        decoding: Decoding,
        samples: int = 1,
        where: Mapping[str, str | list[str]] | None = None,
    ) -> None:
        tokens = decoding.max_tokens
        temperature = decoding.temperature or 0
        if samples < 1 or temperature < 0 or (tokens is not None and tokens < 1):
            raise ConfigError("samples and max_tokens must be at least 1, and temperature 0.")
        self.prompt = prompt
        self.decoding = decoding
        self.samples = samples
        self._where = where or {}

    @override
    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the prompt template, under the key ``prompt_sha256``."""
        return {"prompt_sha256": self.prompt.sha256}

    def judges(self, instance: Instance[Any]) -> bool:
        """Return whether the judge scores an instance: whether its groups are in ``where``."""
        for label, groups in self._where.items():
            allowed_groups = [groups] if isinstance(groups, str) else groups
            if instance.groups.get(label) not in allowed_groups:
                return False
        return True

    def question(
        self, instance: Instance[Any], judged: str | Mapping[str, str], **fields: Any
    ) -> Question:
        """Return the question for the judge's model.

        Args:
            instance: The instance.
            judged: The judged answer, or several by field of the template.
            fields: The values of other fields.
        """
        texts = {"text": judged} if isinstance(judged, str) else judged
        return Question(self.prompt.render(instance, texts, **fields), self.decoding, self.samples)

    def group_by_question(self, replies: Sequence[Reply]) -> list[Sequence[Reply]]:
        """Return the replies grouped by question: `samples` consecutive replies for each."""
        starts = range(0, len(replies), self.samples)
        return [replies[start : start + self.samples] for start in starts]


class PublishedJudge(Judge):
    """Base class of judges that use a benchmark's published prompts and decode greedily.

    Raises:
        ConfigError: If ``max_tokens`` is below 1.
    """

    folder: ClassVar[str]
    """Folder of the prompts, below ``prompts/``."""

    def __init__(self, max_tokens: int) -> None:
        if max_tokens < 1:
            raise ConfigError("max_tokens must be 1 or more.")
        self.decoding = Decoding(0.0, max_tokens)

    @cached_property
    def prompts(self) -> Mapping[str, Template]:
        """The prompt templates by name, without the folder."""
        return {name.partition("/")[2]: read_builtin(name) for name in prompt_names(self.folder)}

    @override
    def fingerprint(self) -> Mapping[str, str]:
        """Return one hash of all prompts, under the key ``prompts_sha256``."""
        hashes = "".join(prompt.sha256 for prompt in self.prompts.values())
        return {"prompts_sha256": hashlib.sha256(hashes.encode()).hexdigest()}

    def message(self, name: str, fields: Mapping[str, str]) -> Message:
        """Render a prompt as a user message.

        Args:
            name: The name of the prompt, without the folder.
            fields: The values of its fields.
        """
        return Message("user", self.prompts[name].render(fields))


MAX_TOKENS_PER_POSITION = 5  # the likeliest, which are requested and examined
MAX_POSITIONS = 5  # of a reply that are examined
MIN_YES_NO_PROBABILITY = 0.5  # of yes and no together, unless the reply says one of them
DEFAULT_VOTES = 5  # odd, so that there is no tie

_AROUND = r"(?:[^\w~¬?\uff1f]|Ġ|_)*"
_NOT_CROSSED = f"(?!.*[{CROSSES}])"
_YES = re.compile(f"{_NOT_CROSSED}{_AROUND}yes{_AROUND}", re.IGNORECASE | re.DOTALL)
_NO = re.compile(f"{_AROUND}no{_AROUND}", re.IGNORECASE)
_SPACES = re.compile("[Ġ▁]")  # as tokenisers write them
_LEADS_TO_VERDICT = re.compile(
    r"(?:\b(?:answer|verdict)\s+is\s*|[^\w\s]\s*|\A\s*)\Z", re.IGNORECASE
)


class YesProbability(NamedTuple):
    """The probability of yes at the position of a reply's tokens that decides."""

    probability: float
    position: int  # from 0
    tokens: tuple[TokenLogprob, ...]  # the likeliest at the position


def yes_probability(logprobs: Logprobs) -> YesProbability | None:
    """Return the probability of yes in a reply's tokens, or None if they say neither yes nor no.

    The five likeliest tokens at each of the first five positions are examined. Tokens count as yes
    or no regardless of case, surrounding punctuation and tokeniser marks. The deciding position is
    the first at which yes and no together have a probability of at least one half, or the likeliest
    token is one of them, and at which a verdict can begin: not in the middle of a sentence ("There
    is no"), except after "the answer is". The result is ``yes / (yes + no)`` at that position.

    Source: WildIFEval (Lior et al. 2025, arXiv 2503.06573), which also decides where yes and no
    are unlikely, whatever the reply says there.
    """
    before = ""
    for position, likeliest in enumerate(logprobs[:MAX_POSITIONS]):
        tokens = likeliest[:MAX_TOKENS_PER_POSITION]
        if not tokens:
            continue
        yes = _probability(_YES, tokens)
        no = _probability(_NO, tokens)
        likeliest_token = max(tokens, key=lambda token: token.logprob).token
        decides = yes + no >= MIN_YES_NO_PROBABILITY or parse_vote(likeliest_token) is not None
        if yes + no > 0 and decides and _LEADS_TO_VERDICT.search(before):
            return YesProbability(yes / (yes + no), position, tokens)
        before += _SPACES.sub(" ", likeliest_token)
    return None


def _probability(word: re.Pattern[str], tokens: Sequence[TokenLogprob]) -> float:
    logprobs = [token.logprob for token in tokens if word.fullmatch(token.token)]
    return math.fsum(map(math.exp, logprobs))


def parse_vote(text: str) -> bool | None:
    """Parse a yes or a no: True for yes, False for no, or None for any other text.

    Case and surrounding punctuation are ignored. A text with a question mark, ``~`` or ``¬`` is
    neither, and a yes with a cross (❌) is no yes.
    """
    if _YES.fullmatch(text):
        return True
    return False if _NO.fullmatch(text) else None


# Puts untrusted text between tags that it cannot close.
# A model may read a tag that looks like the real one as the real one: with letters of other
# scripts, full-width forms, or characters between them that do not show. Those are escaped too.

TAG = "judged_text"

# Characters that look like "<" or "/", and whose compatibility forms are not these.
_OPENING = "<\u02c2\u1438\u2039\u2329\u276e\u27e8\u3008\ufe64\uff1c"
_SLASH = "/\u2044\u2215\u29f8\uff0f\u2571"
_UNDERSCORE = "_ \u00a0\u02cd\u203f\u2017\ufe4d-\ufe4f\uff3f-"
# Letters of other scripts that look like Latin ones (Unicode, UTS 39, "confusables").
_LOOKALIKES = {
    "a": "\u0430\u03b1\u0251",
    "b": "\u044c\u0184",
    "c": "\u0441\u03f2",
    "d": "\u0501\u0257",
    "e": "\u0435\u04bd\u03b5",
    "f": "\u0192\u03dd",
    "g": "\u0261\u0581\u0123",
    "h": "\u04bb\u0570",
    "i": "\u0456\u03b9\u0131\u04cf",
    "j": "\u0458\u03f3",
    "k": "\u043a\u03ba",
    "l": "\u04cf\u0269|1",
    "m": "\u043c",
    "n": "\u0578\u03b7",
    "o": "\u043e\u03bf\u05850",
    "p": "\u0440\u03c1",
    "q": "\u051b\u0566",
    "r": "\u0433\u1d26",
    "s": "\u0455\ua7315",
    "t": "\u0442\u03c4",
    "u": "\u03c5\u057d\u1d1c",
    "v": "\u0475\u03bd\u1d20",
    "w": "\u051d\u0461\u1d21",
    "x": "\u0445\u03c7",
    "y": "\u0443\u03b3\u04af",
    "z": "\u1d22",
}
# Ranges of letters with a compatibility form: full-width, mathematical, enclosed, raised.
_COMPATIBILITY_RANGES = (
    *(range(0x00A0, 0x0250), range(0x02B0, 0x0300), range(0x1D2C, 0x1DC0), range(0x2070, 0x2190)),
    *(range(0x2460, 0x2500), range(0xFF00, 0xFFF0), range(0x1D400, 0x1D800)),
    range(0x1F110, 0x1F190),
)
_HIDDEN_CHARACTER = (  # characters that do not show, and combining marks
    r"[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20f0\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_GAP = rf"(?:\s|{_HIDDEN_CHARACTER})*+"


@cache
def _lookalike_forms() -> dict[str, str]:
    """Return the characters whose compatibility form is a letter or digit, by that letter."""
    forms: dict[str, str] = {}
    for code in chain(*_COMPATIBILITY_RANGES):
        plain = unicodedata.normalize("NFKD", chr(code))[:1].casefold()
        if plain.isascii() and plain.isalnum():
            forms[plain] = forms.get(plain, "") + chr(code)
    return forms


def _letter_class(letter: str) -> str:
    """Return a regular expression for a letter and the characters that look like it."""
    if letter == "_":
        return f"[{_UNDERSCORE}]"
    lookalikes = _LOOKALIKES.get(letter, "") + _lookalike_forms().get(letter, "")
    return f"[{re.escape(letter + lookalikes)}]"


@cache
def _tag_patterns(*tags: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of the beginning of a tag, and of the escaped beginning of one."""
    separator = f"{_HIDDEN_CHARACTER}*+"
    names = "|".join(separator.join(map(_letter_class, tag.casefold())) for tag in tags)
    name = f"{_GAP}(?:[{_SLASH}]{_GAP})?(?:{names})"
    escaped = rf"&(?=(?:amp;)*(?:lt|#x[0-9a-f]+);{name})"
    return (
        re.compile(f"[{_OPENING}](?={name})", re.IGNORECASE),
        re.compile(escaped, re.IGNORECASE),
    )


def fenced(text: str, tag: str = TAG) -> str:
    """Return untrusted text between tags, with such tags and `TAG` tags in it escaped.

    Different texts stay different.
    """
    beginning, escaped_beginning = _tag_patterns(*dict.fromkeys((tag, TAG)))
    inert = beginning.sub(_escape_opening, escaped_beginning.sub("&amp;", text))
    return f"<{tag}>\n{inert}\n</{tag}>"


def _escape_opening(opening: re.Match[str]) -> str:
    return "&lt;" if opening[0] == "<" else f"&#x{ord(opening[0]):x};"


def find_fenced_texts(prompt: str) -> list[str]:
    """Return the texts that `fenced` put between tags in a prompt, still escaped."""
    return re.findall(rf"<{TAG}>\n(.*?)\n</{TAG}>", prompt, re.DOTALL)


def mean_of_decided(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None if there is no such value."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def threshold_score(
    value: float | None, threshold: float | None, reason: str, details: Any, *, share: bool = False
) -> Score:
    """Return a score that passes if its value reaches a threshold.

    Args:
        value: The value; None for a score without a verdict.
        threshold: The lowest value that passes; None for a score without a verdict.
        reason: Why the score fails, if it does.
        details: As in `Score`.
        share: As in `Score`.
    """
    passed = None if threshold is None or value is None else value >= threshold
    return Score(value, passed, reason if passed is False else "", details, share=share)


def criteria_scores(
    constraints: Sequence[Mapping[str, Any]],
    undecided: str = "The judge said neither yes nor no of: ",
) -> Mapping[str, Score]:
    """Return WildIFEval's scores ``strict`` and ``soft`` (Lior et al. 2025, arXiv 2503.06573).

    Args:
        constraints: The constraints, with the keys ``constraint`` (the text) and ``passed``, which
            is None if the constraint is undecided. A tie of a panel has a ``probability`` of 0.5
            and counts as half in ``soft``: if ties were left out, the panel's share could exceed
            that of each of its judges.
        undecided: The beginning of the reason of ``strict`` without a verdict.

    Returns:
        ``strict``: False if any constraint did not pass, otherwise None if any is undecided,
        otherwise True. ``soft``: the share of the decided constraints that passed, or None if none
        is decided.
    """
    texts: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    shares = []
    for constraint in constraints:
        passed = constraint["passed"]
        texts[passed].append(constraint["constraint"])
        shares.append(constraint.get("probability") if passed is None else float(passed))
    strict: bool | None = True
    reason = ""
    if texts[False]:
        strict = False
        reason = "Not satisfied: " + "; ".join(texts[False])
    elif texts[None]:
        strict = None
        reason = undecided + "; ".join(texts[None])
    decided = len(constraints) - len(texts[None])
    counts = {"decided": decided, "abstained": len(texts[None])}
    return {
        "strict": Score(strict, strict, reason, {"constraints": list(constraints)}),
        "soft": Score(mean_of_decided(shares), None, "", counts, share=True),
    }


class YesNo(PromptJudge):
    """Asks for each criterion whether the answer satisfies it: yes or no.

    Args:
        prompt: Name of a built-in template, or a file. Fields: text, criterion, asked.
        votes: Number of votes. By default, log-probabilities are read if the judge's backend
            returns them; otherwise there are five votes.
        temperature: Sampling temperature of votes.
        max_tokens: Maximum tokens of a reply.
    """

    by_criteria = True

    def __init__(
        self,
        prompt: str = "yes_no",
        votes: int | None = None,
        temperature: float = 0.7,
        max_tokens: int = 5,
        *,
        task: Task[Any],
        features: Collection[str] | None = None,
    ) -> None:
        if not overrides_method(task, Task.criteria):
            raise ConfigError(
                "The task does not say what an answer has to satisfy.",
                "Remove it, or give the task instruction and criteria (harness docs plugins).",
            )
        if votes is not None and votes < 1:
            raise ConfigError("votes must be 1 or more.")
        if votes is None and features is not None and LOGPROBS not in features:
            votes = DEFAULT_VOTES
        decoding = Decoding(temperature, max_tokens)
        super().__init__(JudgePrompt(prompt, {"criterion"}, task), decoding, votes or 1)
        if votes is None:
            self.decoding = Decoding(0.0, max_tokens, logprobs=MAX_TOKENS_PER_POSITION)
        self._task = task
        self._votes = votes

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return one question for each criterion."""
        return [
            self.question(instance, text, criterion=fenced(criterion.text, "criterion"))
            for criterion in self._task.criteria(instance)
        ]

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """Parse the replies to the scores ``strict`` and ``soft`` (see `criteria_scores`).

        Raises:
            Unparseable: If there are no criteria, or if none of the replies has the required
                log-probabilities.
        """
        criteria = self._task.criteria(instance)
        if not criteria:
            raise Unparseable(f"{instance.id!r} has no criteria to decide on.")
        if self._votes is not None:
            decisions = [_verdict_by_votes(ballot) for ballot in self.group_by_question(replies)]
        elif replies and all(reply.reasoning or reply.logprobs is None for reply in replies):
            raise Unparseable(
                "The judging model returned no log-probabilities of an answer.",
                f"Let it vote: set the judge's votes: {DEFAULT_VOTES}.",
            )
        else:
            decisions = [_verdict_by_tokens(reply) for reply in replies]
        pairs = zip(criteria, decisions, strict=True)
        return criteria_scores([_constraint_entry(*pair) for pair in pairs])

    @override
    def simulated(self, request: Request) -> str:
        """Return "Yes"."""
        return "Yes"


def _verdict_by_votes(ballot: Sequence[Reply]) -> dict[str, Any]:
    votes = [parse_vote(reply.text) for reply in ballot]
    return {"probability": mean_of_decided(votes), "votes": votes}


def _verdict_by_tokens(reply: Reply) -> dict[str, Any]:
    # After reasoning, the log-probabilities may belong to the reasoning.
    logprobs = () if reply.reasoning else reply.logprobs or ()
    yes = yes_probability(logprobs)
    if yes is None:
        return {"probability": None, "tokens": _token_pairs(logprobs[0] if logprobs else ())}
    tokens = _token_pairs(yes.tokens)
    return {"probability": yes.probability, "position": yes.position, "tokens": tokens}


def _token_pairs(tokens: Sequence[TokenLogprob]) -> list[list[str | float]]:
    return [[token.token, token.logprob] for token in tokens[:MAX_TOKENS_PER_POSITION]]


def _constraint_entry(criterion: Criterion, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return a criterion with its verdict, in the form that `harness.analysis` reads."""
    probability = details["probability"]
    kind = criterion.groups.get("category")
    return {
        "constraint": criterion.text,
        **({"kind": kind} if kind else {}),
        "passed": None if probability is None else probability >= MIN_YES_PROBABILITY,
        "groups": dict(criterion.groups),
        **details,
    }
