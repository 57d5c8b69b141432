"""The questions that a build asks models, the prompts of its stages, and how replies are parsed.

The probability of a yes is computed from the log-probabilities of the first tokens. If the model
does not return them, or the settings ask for votes, it is the share of yes among the model's votes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct

from harness.calls.keys import provider_seed
from harness.calls.signals import Notices, Stop, Stopping
from harness.engine.assessment import reply_outcome
from harness.engine.call_stack import bind
from harness.engine.models import Model, worker_count
from harness.engine.progress import Tally
from harness.engine.session import Session, process_all
from harness.errors import (
    CallError,
    ConfigError,
    FatalCallError,
    HarnessError,
    RequestRejected,
    Unparseable,
)
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES, OTHER, named
from harness.plugins.builders.draws import Draws
from harness.plugins.builders.wildifeval.curation_file import FilterSection, PromptName, StageName
from harness.prompts import Template, read_builtin, read_file
from harness.records import (
    Decoding,
    JsonObject,
    Logprobs,
    Message,
    Origin,
    Request,
    Usage,
    messages_hash,
)
from harness.scoring.judges import (
    DEFAULT_VOTES,
    MAX_TOKENS_PER_POSITION,
    fenced,
    mean_of_decided,
    parse_vote,
    yes_probability,
)

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


FIRST_LOOK = 20  # answers to inspect before the other questions are asked

# Returns a context manager that shows the progress of the named stage, and may stop the build.
StageListener = Callable[[str, Tally, Stop, Notices], AbstractContextManager[Any]]


class StageCalls:
    """The calls to the models of a build's stages."""

    def __init__(
        self,
        models: Mapping[StageName, Model],
        session: Session,
        seed: int,
        listener: StageListener | None = None,
    ) -> None:
        self._models: dict[str, Model] = {str(name): model for name, model in models.items()}
        self.session = session
        self._seed = seed
        self._listener = listener
        # By stage: calls by id, each with its usage, US dollars (None: unknown), and whether paid.
        self._facts: dict[str, dict[str, tuple[Usage | None, float | None, bool]]] = {}

    def gives_logprobs(self, stage: str) -> bool:
        """Return whether the stage's model returns log-probabilities."""
        return "logprobs" in self._models[stage].backend.features

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
        session = self.session
        model = self._models[stage]
        remedy = "Give it another model, or set filter.votes."
        decoding = model.supported_decoding(decoding, f"The stage {stage!r}", remedy)
        facts = self._facts.setdefault(stage, {})
        first = 0
        if look:
            first = min(FIRST_LOOK, len(questions))
        tally = Tally(samples * len(questions), budget=session.budget)
        looked_at: dict[int, StageAnswer] = {}
        answers: dict[tuple[int, int], T] = {}
        failed: list[str] = []

        async def answer(item: tuple[int, int]) -> None:
            place, sample = item
            seed = None
            about, text = questions[place]
            messages = (Message("user", text()),)
            if "seed" in model.backend.features:
                seed = provider_seed(self._seed, messages_hash(messages), sample)
            origin = Origin(about, sample, 1)
            request = Request(model.section.name, messages, decoding, sample, origin, seed)
            try:
                call = await bind(session, model).call(request)
            except FatalCallError:
                raise
            except RequestRejected:
                stage_answer = StageAnswer("refused")
            except CallError as error:
                tally.last_error = f"{type(error).__name__}: {error}"
                failed.append(tally.last_error)
                tally.finish_sample()
                return
            else:
                reply = call.reply
                cost = model.cost(call.reply)
                logprobs = None if reply.reasoning else reply.logprobs
                stage_answer = StageAnswer(reply_outcome(reply), reply.text, logprobs)
                paid = not call.cached or (call.id in facts and facts[call.id][2])
                facts[call.id] = reply.usage, cost, paid
                tally.count_call(reply.usage, cost, cached=call.cached)
            answers[item] = read(stage_answer)
            if place < first and sample == 0:
                looked_at[place] = stage_answer
            tally.finish_sample()

        async def answer_all(items: Iterator[tuple[int, int]]) -> None:
            await process_all(items, answer, workers=worker_count([model]), stop=session.stop)

        progress: AbstractContextManager[Any] = nullcontext()
        if self._listener:
            progress = self._listener(stage, tally, session.stop, session.notices)
        items = list(product(range(len(questions)), range(samples)))
        first_items = [(place, 0) for place in range(first)]
        with progress:
            if look:
                await answer_all(iter(first_items))
                if not session.stop.requested:
                    look([looked_at[place] for place in sorted(looked_at)])
            remaining = (item for item in items if item not in first_items)
            await answer_all(remaining)
        if len(answers) + len(failed) < tally.expected:
            raise Stopping
        if failed:
            message = f"{len(failed):,} of {tally.expected:,} calls of the stage {stage!r} failed."
            remedy = "Run the same command again: it repeats only the failed calls."
            raise HarnessError(f"{message} The last error: {failed[-1]}.", remedy)
        return [[answers[place, k] for k in range(samples)] for place in range(len(questions))]

    def facts(self) -> Mapping[str, Any]:
        """Return entries for the manifest."""
        models = {}
        for stage, model in self._models.items():
            models[stage] = {
                "backend": model.section.backend,
                "endpoint": model.backend.endpoint,
                "name": model.section.name,
            }
        return {
            "simulated": any(model.simulated for model in self._models.values()),
            "models": models,
            "calls": {stage: _totals(calls) for stage, calls in self._facts.items()},
        }


def _totals(calls: Mapping[str, tuple[Usage | None, float | None, bool]]) -> JsonObject:
    usage = Usage()
    cost: float | None = 0
    n_cached = 0
    for call_usage, call_cost, paid in calls.values():
        if call_usage:
            usage += call_usage
        cost = None if cost is None or call_cost is None else cost + call_cost
        n_cached += not paid
    return {
        "answers": len(calls),
        "cached": n_cached,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": cost,
    }


def top_share(
    probabilities: Mapping[str, float | None], share: float, seed: int
) -> tuple[set[str], float]:
    """Return the names with the highest probabilities, and their lowest probability (0 if none).

    Of the names with a probability, the fraction ``share`` (0 to 1) is returned, but at least one.
    The seed breaks ties.

    >>> top_share({"a": 0.9, "b": 0.1, "c": 0.4, "d": None}, 0.3, seed=0)
    ({'a'}, 0.9)
    """
    decided = {name: value for name, value in probabilities.items() if value is not None}
    if not decided:
        return set(), 0.0
    n = max(1, round(share * len(decided)))
    order = Draws(seed, "selection").shuffled(list(decided))
    # Ties are frequent: the share of five votes has only six values. A stable sort keeps the draw.
    order.sort(key=lambda name: -decided[name])
    return set(order[:n]), decided[order[n - 1]]


def times(by: FilterSection, gives_logprobs: bool) -> tuple[int, Decoding]:
    """Return a filter's number of answers to each question, and its decoding."""
    if by.votes is None and gives_logprobs:
        return 1, Decoding(
            temperature=0.0, max_tokens=by.max_tokens, logprobs=MAX_TOKENS_PER_POSITION
        )
    return by.votes or DEFAULT_VOTES, Decoding(
        temperature=VOTING_TEMPERATURE, max_tokens=by.max_tokens
    )


async def yes_probabilities(
    asking: StageCalls, stage: str, questions: Sequence[StageQuestion], by: FilterSection
) -> list[float | None]:
    """Ask yes/no questions as ``by`` says, and return the probability of yes (0 to 1) for each.

    The probability is None if no reply to the question can be read.

    Raises:
        ConfigError: If none of the stage's first replies, refusals aside, can be read.
        HarnessError, Stopping: As in `StageCalls.ask`.
    """
    samples, decoding = times(by, asking.gives_logprobs(stage))
    read = _vote if decoding.logprobs is None else _by_tokens
    look = partial(_refuse_unreadable, stage, read)
    answers = await asking.ask(stage, questions, decoding, read, samples, look)
    return [mean_of_decided(votes) for votes in answers]


def _vote(answer: StageAnswer) -> float | None:
    if answer.outcome not in ("ok", "truncated"):
        return None
    return parse_vote(answer.text)


def _by_tokens(answer: StageAnswer) -> float | None:
    if answer.outcome == "refused":  # "No, I will not" is not a no
        return None
    decision = yes_probability(answer.logprobs or ())
    return decision.probability if decision else None


def _refuse_unreadable(
    stage: str, read: Callable[[StageAnswer], float | None], first: Sequence[StageAnswer]
) -> None:
    replies = [answer for answer in first if answer.outcome != "refused"]
    if not replies or any(read(answer) is not None for answer in replies):
        return
    texts = dict.fromkeys(repr(answer.text[:LONGEST]) for answer in replies)
    said = ", ".join(list(texts)[:QUOTED])
    if read is _by_tokens and all(reply.logprobs is None for reply in replies):
        said += " and have no log-probabilities"
    raise ConfigError(
        f"The stage {stage!r} was stopped because none of its first {len(replies)} replies can be "
        f"read: they say {said}. They are in the cache.",
        f"Let the model vote: filter.votes={DEFAULT_VOTES}. A reasoning model also needs "
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

    def __init__(self, files: Mapping[PromptName, Path]) -> None:
        self._prompts: dict[PromptName, Template] = {}
        for name, fields in FIELDS.items():
            if name in files:
                prompt = read_file(files[name], f"prompts.{name}")
            else:
                prompt = read_builtin(f"wildifeval/{name}")
            prompt.check_fields(fields)
            if missing := sorted((fields & NEEDED) - prompt.fields):
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


LONGEST_CONSTRAINT = 1_000  # characters; a longer text is not a single constraint
LONGEST_NAME = 60

_HEADED = re.compile(r"^[ \t#*]{0,8}((?:\w{1,40} )?)constraints?[ \t*]{0,4}:", re.I | re.M)
_OPENED = re.compile(r"(?:\w{1,40} )?task[ \t*]{0,4}:\s*\Z", re.I)
_MARK = re.compile(r"[ *]{0,8}(?:(\d{1,3}[.)])|[-*•]) +")
_FENCE_OR_RULE = re.compile(r" *(?:```|~~~|(?:- *){3,}$|(?:\* *){3,}$|(?:_ *){3,}$)")
_NOTHING = re.compile(r"\W*(?:none|nothing|n/a|no (?:context|constraints))?\W*", re.I)
_LISTED = re.compile(r"^\W{0,8}(\d{1,3})[.):\]][ \t]{0,4}(.{1,200})", re.M)
_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,3}[.):]|[-*•])[ \t]+(.{1,200})$", re.M)
_PLAIN = re.compile(r"[^.:;!?\n]{1,60}")
_NUMBER = re.compile(r"\W{0,4}(\d{1,3})\W{0,4}")
_PREFIX = re.compile(r"\W{0,4}\d{1,3}[.):]\s{0,4}")
_OTHER = re.compile(r"\W{0,4}other\b\W{0,8}(.{0,200})", re.I | re.S)


class Decomposition(Struct, frozen=True):
    """The parts of a message: its task without constraints, context (or "") and constraints."""

    task: str
    context: str
    constraints: tuple[str, ...]


def decomposition(reply: str, prompt: str = "") -> Decomposition:
    """Return the parts of a message that a model's reply lists under headings.

    The prompt determines the headings, such as "Translated Constraints:".

    Raises:
        Unparseable: If the constraints are missing, unreadable, too long or not the last part.
    """
    texts_by_part: dict[str, str] = {}
    for name, text in _headed_parts(reply, prompt):
        if "constraint" in texts_by_part:
            raise Unparseable("The constraints are not the last part of the reply.")
        kind = name.lower().removesuffix("s")
        texts_by_part[kind] = texts_by_part.get(kind, "").strip() or text
    if "constraint" not in texts_by_part:
        raise Unparseable("The reply has no constraints in it.")
    constraints: dict[str, str] = {}
    for text in _items(texts_by_part["constraint"]):
        if len(text) > LONGEST_CONSTRAINT:
            raise Unparseable(f"A constraint of more than {LONGEST_CONSTRAINT:,} characters.")
        if not _NOTHING.fullmatch(text):
            constraints.setdefault(sameness(text), text)
    task = _line(texts_by_part.get("task", ""))
    context = _line(texts_by_part.get("context", ""))
    if _NOTHING.fullmatch(context):
        context = ""
    return Decomposition(task, context, tuple(constraints.values()))


def _headed_parts(reply: str, prompt: str) -> Iterator[tuple[str, str]]:
    """Yield the headings of a reply (task, context or constraints), each with the text below."""
    begin = r"^[ \t#*]{0,8}"
    headings = _HEADED.findall(prompt)
    if headings and headings[-1]:  # a word before the heading, which may then be within a line
        begin = rf"(?:{begin}|\b){headings[-1]}"
    heading = rf"{begin}(task|context|constraints?)[ \t*]{{0,4}}:[ \t*]{{0,4}}"
    opened = _OPENED.search(prompt)
    start = opened[0] if opened else ""
    parts = re.split(heading, f"{start} {reply}", flags=re.I | re.M)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def sameness(constraint: str) -> str:
    """Return a constraint in a form for comparisons, without capitals, extra spaces or end mark."""
    return " ".join(constraint.casefold().split()).rstrip(".!;, ")


def _items(listed: str) -> list[str]:
    """Return the items of a numbered or bulleted list, each as one line, without later remarks."""
    items: list[str] = []
    before: list[str] = []
    numbered = False
    text_from = 0
    ended = False
    remarked = False
    for line in listed.expandtabs(4).split("\n"):
        if not line.strip() or _FENCE_OR_RULE.match(line):
            ended = bool(items or before)
            continue
        depth = len(line) - len(line.lstrip(" "))
        mark = _MARK.match(line)
        is_item = False
        if mark:
            has_number = mark[1] is not None
            is_item = not items or (has_number == numbered and depth < text_from)
        if mark and is_item:
            if remarked:
                raise Unparseable("The list of constraints continues after other text.")
            if not items:
                numbered = has_number
                text_from = mark.end()
            items.append(line[mark.end() :])
            ended = False
        elif items and not remarked and (not ended or depth >= text_from):
            items[-1] += f" {line}"
        elif items:
            remarked = True
        elif not ended:
            before.append(line)
    if not items and not _NOTHING.fullmatch("\n".join(before).strip()):
        raise Unparseable("The constraints are not numbered.")
    return [_line(item) for item in items]


def _line(text: str) -> str:
    return " ".join(text.split())


def numbered_names(reply: str) -> list[str]:
    """Return the distinct short names in a reply: list items or, without a list, lines of names."""
    items = _ITEM.findall(reply)
    if not items:
        lines = [line for line in reply.splitlines() if line.strip()]
        if len(lines) > 1 and all(map(_PLAIN.fullmatch, lines)):
            items = lines
    names: dict[str, str] = {}
    for item in items:
        name = _bare(_head(item))
        if name and len(name) <= LONGEST_NAME:
            names.setdefault(name.casefold(), name)
    return list(names.values())


def numbering(prompt: str, names: Iterable[str]) -> dict[int, str]:
    """Map the numbers in a prompt's list to the names listed, or to "" for an ambiguous number."""
    by_letters = {_letters(name): name for name in names}
    numbers: dict[int, str] = {}
    for digits, item in _LISTED.findall(prompt):
        number = int(digits)
        name = by_letters.get(_letters(_head(item)))
        if name:
            is_ambiguous = numbers.get(number, name) != name
            numbers[number] = "" if is_ambiguous else name
    return numbers


def chosen(reply: str, names: Sequence[str], numbers: Mapping[int, str]) -> str:
    """Return the name that a reply's first line gives, directly or by number ("" if none)."""
    line = first_line(reply)
    if number := _NUMBER.fullmatch(line):
        return numbers.get(int(number[1]), "")
    letters = _letters(_PREFIX.sub("", line, count=1))
    for name in names:
        if _letters(name) == letters:
            return name
    return ""


def category(reply: str, numbers: Mapping[int, str]) -> tuple[str, str] | None:
    """Return the category that a reply's first line names, by name or number, or None.

    The result is the name and, for the category Other, the model's title for it (otherwise "").
    """
    line = _PREFIX.sub("", first_line(reply), count=1)
    name = chosen(reply, list(CATEGORIES), numbers)
    if not name:
        if match := _OTHER.fullmatch(line):
            return OTHER, _bare(match[1])[:LONGEST_NAME]
        name = named(_bare(line))
    if name not in CATEGORIES:
        return None
    return name, ""


def _head(item: str) -> str:
    return re.split(r":\s|\s[-\u2013\u2014]\s", f"{item} ", maxsplit=1)[0]


def _bare(name: str) -> str:
    return _line(name).strip("*_`\"' .:;")


def first_line(reply: str) -> str:
    """Return a reply's first non-blank line (empty if all lines are blank)."""
    for line in reply.splitlines():
        if line.strip():
            return line
    return ""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
