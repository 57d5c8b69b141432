"""The shapes of plug-ins: what a backend, a task, a checker, a judge and others must offer.

Protocols, not base classes: a plug-in inherits nothing. A plug-in module ends
with ``plugin = TheClass``; the constructor's parameters are the options that a
run file may set, its keyword-only ones are handed over by the harness where
they are asked for: ``data`` (the data folder) and ``judges`` (those of the run by their
names, each with whether it decides on criteria) to tasks; ``secret``, ``read``,
``gold``, ``concurrency``, ``timeout_s``, ``model`` (its name) and
``on_allowances`` (to be told what the headers say of rate limits), ``servers`` (the processes
that this one owns) and ``logs`` (the folder for their output) to backends;
``task``, ``model`` (the judging one's name), its backend's ``features`` and ``answers`` (those of
another run, see `AnswersOf`) to judges; ``data`` to loaders, ``units`` (the splitter of texts) to
filters (see `harness.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args

from harness.records import (
    ConstraintKind,
    Criterion,
    DecodingConstraint,
    Document,
    Instance,
    Message,
    Reply,
    Request,
    Score,
)

D = TypeVar("D")

PARAMETERS = frozenset({"temperature", "top_p", "max_tokens", "stop", "extra", "seed"})
"""What a run file may ask of nearly any backend's decoding, as its features name it."""

LOGPROBS = "logprobs"
"""And what only some give: the log-probabilities of the likeliest tokens."""

PROMPT_LOGPROBS = "prompt_logprobs"
"""Those of the prompt's own tokens."""

OWN_DRAWS = "own_draws"
"""Sampling is cheap: instances that share a prompt get answers of their own."""

CONSTRAINTS: frozenset[ConstraintKind] = frozenset(get_args(ConstraintKind))
"""What an answer can be held to, as features name it."""


class Backend(Protocol):
    """One provider protocol."""

    @property
    def features(self) -> frozenset[str]:
        """What it can do, by name.

        The decoding parameters it takes (``temperature``, ``top_p``,
        ``max_tokens``, ``stop``, ``extra``, ``seed``; all others are refused
        before any work); ``logprobs``: tells the likeliest tokens of each position with
        their log-probabilities; what it can hold an answer to (``json_schema``, ``regex``,
        ``choices``, ``grammar``); and ``max_tokens_required``; ``conversation``: takes
        more than one turn; ``recorded``: its answers are there already, whatever is
        asked; ``by_instance``: its answers depend on the instance
        asked for, not on the prompt alone; ``free``: its calls cost no money (a
        local server); ``own_draws``: sampled answers are drawn anew for instances that share a
        prompt, by seeds of their own; ``simulated``: its answers are made up, and every table
        must say so.
        """
        ...

    @property
    def endpoint(self) -> str:
        """Where its requests go: part of the cache key, empty where nowhere."""
        ...

    @property
    def cacheable(self) -> bool:
        """Whether its replies cost something and are worth keeping."""
        ...

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises: a `harness.errors.CallError`, nothing of the vendor's own;
            `PromptRefused` is recorded as an answer with outcome ``refused``.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections and processes."""
        ...


class Startable(Protocol):
    """A backend that must come up before it can be asked, such as a server of one's own."""

    @property
    def ready(self) -> bool:
        """Whether it can be asked now."""
        ...

    async def start(self, tell: Callable[[str], None]) -> None:
        """Return when it can be asked, for the first time or again; may take minutes.

        tell: is told what the user should know.

        Raises: `harness.errors.FatalCallError` where that will not be.
        """
        ...


class Deep(Protocol):
    """A backend that works on many calls at a time, such as a batch of an engine of one's own."""

    @property
    def depth(self) -> int:
        """Calls in flight that keep it busy, where the user states no ``limits.concurrency``.

        It queues what it cannot take yet, so that a run need not begin with a few.
        """
        ...


class Task(Protocol[D]):
    """One benchmark: its instances, prompts and scoring."""

    @property
    def on_truncated(self) -> Literal["fail", "grade"]:
        """What becomes of an answer that ran into max_tokens."""
        ...

    def instances(self) -> Iterator[Instance[D]]:
        """The instances, lazily, in the data set's order; ids are unique."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """What the task's scores depend on (data hash, tokeniser, prompts): for the manifest."""
        ...

    def messages(self, instance: Instance[D], shots: Sequence[Instance[D]]) -> tuple[Message, ...]:
        """The conversation of round 1.

        shots: other instances, shown with their gold answers in the task's own way;
            empty but for ``shots: {form: task}``.
        """
        ...

    def score(self, instance: Instance[D], text: str) -> Mapping[str, Score]:
        """Score one answer: a pure function of its arguments.

        Raises: `harness.errors.Unparseable` where the answer cannot be read.
            Its ``scores`` may tell why, in numbers.
        """
        ...

    def feedback(self, instance: Instance[D], text: str, scores: Mapping[str, Score]) -> str:
        """What the user's next turn says about this answer."""
        ...

    def gold(self, instance: Instance[D]) -> str | None:
        """An answer that passes, None where none is known."""
        ...


class Polishable(Protocol[D]):
    """A task whose instruction and feedback a second model may rewrite."""

    def kept(self, instance: Instance[D]) -> Sequence[str]:
        """The values that a rewriting must keep, as they are written."""
        ...


class Guarded(Protocol[D]):
    """A task that knows more of leaks than that a shot must not have the instance's prompt."""

    def gives_away(self, instance: Instance[D], shot: Instance[D]) -> bool:
        """Whether the shot's gold answer would be a right one to the instance."""
        ...


class Erring(Protocol[D]):
    """A task that knows how its answers go wrong, so that simulated runs are like real ones."""

    def wrong(self, instance: Instance[D]) -> str | None:
        """An answer that does not pass, as a model might give it; None where none is known."""
        ...


class Constraining(Protocol[D]):
    """A task that knows what form its answers have: for ``decoding: {constraint: task}``."""

    @property
    def constraint_kind(self) -> ConstraintKind:
        """Which kind its constraints are, to be refused before any work where they must be."""
        ...

    def constraint(self, instance: Instance[D]) -> DecodingConstraint:
        """What the decoder may write in answer to an instance."""
        ...


class Measured(Protocol[D]):
    """A task that is measured by a score and not by how often answers pass."""

    @property
    def measure(self) -> str:
        """The name of that score, for the headline of tables."""
        ...

    def score_of_no_answer(self, instance: Instance[D]) -> Mapping[str, Score]:
        """What an answer scores that is empty, refused, unreadable, or cut off and not graded.

        The answer fails, whatever these say. Without them it would be left out of
        the means, and a model that refuses what is hard would seem a good one.
        """
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """What a benchmark's paper says that the variants of a run file can show.

    says: in the paper's words.
    source: the paper, and where in it.
    test: ``more``: the encoding `more` scores more than `less`; ``rows_differ``:
        the fields that are added to the baseline differ in what they gain;
        ``groups_differ``: what a variant gains differs between groups.
    more, less: groups of the label ``encoding``.
    """

    says: str
    source: str
    test: Literal["more", "rows_differ", "groups_differ"]
    more: str = ""
    less: str = ""


class Claiming(Protocol):
    """A task whose paper makes claims. Both are the class's: no task is built for a table.

    Its instances have the groups ``encoding`` (what of an instruction the prompt
    holds) and ``examples`` (how many it shows).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the paper says."""
        ...

    def fields(self, encoding: str) -> Mapping[str, str]:
        """The fields that an encoding has, each with the form it has there."""
        ...


@dataclass(frozen=True, slots=True)
class Effect:
    """What a benchmark's groups differ in that its paper draws a picture of.

    name: for the picture's file and title.
    label: whose groups it arranges.
    levels: what they differ in (``first``, ``last``), each with the groups that have it;
        a group may be in none.
    source: the paper, and where in it.
    """

    name: str
    label: str
    levels: Mapping[str, tuple[str, ...]]
    source: str


class Pictured(Protocol):
    """A task whose paper has pictures of its own, for the report. The class's, as of `Claiming`."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What is arranged, and how."""
        ...


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A figure in a paper's table.

    name: as the paper has it (``Gen Acc``).
    of: ``passed``: the pass rate, where an answer that cannot be read fails; ``answered``:
        the pass rate over the answers that have the score `score` alone; ``score``: the mean
        of the score `score`; ``macro_f1``: the mean of the F1 of the two classes that the
        groups of the label `label` name.
    score: of ``macro_f1`` whether the answer is right about its instance's class. A run
        without that score has no ``answered`` and no ``score``; with it named, no ``passed``:
        so the figures of a task with several modes can stand in one table.
    label: of ``macro_f1`` the instance's right class; a run without that label has no such
        figure, whichever kind it is.
    """

    name: str
    of: Literal["passed", "answered", "score", "macro_f1"] = "passed"
    score: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A results table as a benchmark's paper has it, for ``harness table``.

    rows: the label whose groups are the rows of a model; empty for one row.
    columns: the label whose groups are a figure's columns; empty for one column.
    figures: in the paper's order.
    source: the paper, and where in it.
    """

    rows: str
    columns: str
    figures: tuple[TableFigure, ...]
    source: str


class Tabled(Protocol):
    """A task whose paper has such a table. The class's, as of `Claiming`."""

    @property
    def table(self) -> PaperTable:
        """Its rows, columns and figures."""
        ...


class Checker(Protocol):
    """A rule that scores a text."""

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Score the text: a pure function of its arguments."""
        ...


class Metric(Protocol):
    """A measure of an answer against references: a learned one, say."""

    def fingerprint(self) -> str:
        """What its scores depend on, for the manifest."""
        ...

    def score(self, answer: str, references: Sequence[str]) -> float:
        """A pure function of its arguments."""
        ...


class Parsed(Protocol[D]):
    """A task that can score a final answer which somebody else has read out of a text."""

    def score_parsed(self, instance: Instance[D], answer: str) -> Mapping[str, Score]:
        """Score a final answer, empty where the text gives none: a pure function.

        Its scores give no verdict (``passed`` None): that is the task's own reading's.

        Raises: `harness.errors.Unparseable` for what cannot be a final answer.
        """
        ...


class Judged(Protocol[D]):
    """A task whose instances say what an answer has to satisfy, for judges to decide on."""

    def asked(self, instance: Instance[D]) -> str:
        """What the model was asked, in words for a judge."""
        ...

    def criteria(self, instance: Instance[D]) -> Sequence[Criterion]:
        """What an answer has to satisfy, each by itself: at least one."""
        ...


class Calling(Protocol[D]):
    """A task whose instances say which judges of the run they are put before."""

    def calls(self, instance: Instance[D], judge: str) -> bool:
        """Whether an instance's answers are put before a judge, by its name in the run."""
        ...

    def seen_by(self, judge: str) -> Task[D]:
        """The task as a judge is given it: its criteria are what this one decides on."""
        ...


class Judge(Protocol):
    """A model that scores a text, through the same call stack as any model."""

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """What to ask of the judging model about this answer: pure.

        They are asked at the same time, under the name of the judge's model.
        Temperature and most tokens are left out where the backend does not take them.
        """
        ...

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """What the replies say, in the order of the requests.

        At least one says something; one that was refused or is empty has an empty text: where
        several were asked for, that one abstains.

        One that has a keyword parameter ``text`` is given the judged text, too.

        Pure. Raises: `harness.errors.Unparseable` where they hold no verdict: that is never a 0.
        """
        ...


class OtherAnswers(Protocol):
    """Answers that a judge compares with."""

    def has(self, instance: Instance[Any]) -> bool:
        """Whether there is one to an instance."""
        ...

    def text(self, instance: Instance[Any]) -> str | None:
        """The one to an instance; None where there is none."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Which answers these are, for the manifest."""
        ...


AnswersOf = Callable[[str], OtherAnswers]
"""Those of a run by its name. Raises: `harness.errors.UserError` where it cannot be compared."""


class Foretelling(Protocol):
    """A judge that can tell, before it is asked, of what it will not be able to judge."""

    def foretold(self, instances: Iterable[Instance[Any]]) -> str:
        """What the user is to know of these instances; empty where there is nothing."""
        ...


class Advising(Protocol):
    """A judge that says whether it decides with the rules on what passed. Without this, it does."""

    @property
    def verdicts(self) -> bool:
        """False: its scores stand beside the verdict, whatever they say."""
        ...


class ByCriteria(Protocol):
    """A judge that decides on what a task's `criteria` say. The class's, as of `Claiming`."""

    @property
    def by_criteria(self) -> bool:
        """True: it can decide on nothing without."""
        ...


class Simulatable(Protocol):
    """A judge that can be tried out without a model."""

    def simulated(self, request: Request) -> str:
        """What a good model could reply to one of its requests, for the simulated backend."""
        ...


class Measure(Protocol):
    """A number that a constraint may ask for and the grammar has no word for (`op: measure`)."""

    def number(self, units: Sequence[str]) -> int:
        """Of a text's units, marks around them cut off: pure, and quick for any text."""
        ...

    def phrase(self, units: str) -> str:
        """What it is in an instruction.

        units: what they are called ("words").
        """
        ...


class Loader(Protocol):
    """Where the documents of a corpus come from."""

    def names(self) -> Iterator[str]:
        """The name of each document, always in the same order, as cheaply as it can be told.

        Raises: `harness.errors.UserError`.
        """
        ...

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The documents of these names, in the order of `names`.

        Raises: `harness.errors.UserError`; a document that cannot be read says so itself.
        """
        ...


class Filter(Protocol):
    """Says which paragraphs and sentences of a corpus are no natural text."""

    def __call__(self, text: str) -> bool:
        """Whether it is left out: pure, and in bounded time for any text."""
        ...


class PostProcessor(Protocol):
    """Cleans the paragraphs of a corpus that its filters have let through."""

    def __call__(self, text: str) -> str:
        """The text without what is no part of it: pure, and in bounded time for any text."""
        ...
