"""The base classes of plug-ins. A plug-in's file imports them from `harness.plugin`.

A plug-in overrides the methods and attributes of its base class. Those with a default are optional.
An attribute without a value must be set, by the class or by its constructor. A property can be
overridden by a property or by an attribute of the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, get_args

from msgspec import Struct, yaml

from harness.errors import ConfigError
from harness.records import (
    Attempt,
    ConstraintKind,
    Criterion,
    Decoding,
    DecodingConstraint,
    Document,
    Instance,
    Message,
    ObservedRun,
    Question,
    Reply,
    Request,
    Score,
    UserRole,
)

B = TypeVar("B")


def overrides_method(plugin: object, method: Callable[..., Any]) -> bool:
    """Return whether a plug-in's class overrides a method of its base class.

    Used before there is an instance, or to save work for each sample. In all other cases, call the
    method: its default does nothing.

    Args:
        plugin: A plug-in or its class. For a factory of plug-ins, the result is False.
        method: The method of the base class, such as `Task.criteria`.
    """
    plugin_type = plugin if isinstance(plugin, type) else type(plugin)
    return getattr(plugin_type, method.__name__, method) is not method


def plugin_class(plugin: object, base: type[B]) -> type[B]:
    """Return a plug-in if it is a class, or the base class if it is a factory."""
    return plugin if isinstance(plugin, type) and issubclass(plugin, base) else base


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a benchmark's paper that the variants of a run file can confirm or refute.

    ``test`` is the kind of claim:

    - ``more``: the group `more` of the label ``encoding`` scores higher than the group `less`.
    - ``rows_differ``: adding different fields to the baseline brings different gains.
    - ``groups_differ``: a variant's gain differs between groups of instances.
    """

    says: str  # in the paper's words
    source: str  # the paper and the section, figure or table
    test: Literal["more", "rows_differ", "groups_differ"]
    more: str = ""
    less: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """A figure in a benchmark's paper that compares groups of instances, arranged in levels."""

    name: str  # file name and title
    label: str  # the label whose groups are arranged in levels
    levels: Mapping[str, tuple[str, ...]]  # groups by the level's name; a group may be in no level
    source: str  # the paper and the section, figure or table


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A column of a paper's table, such as a pass rate. ``of`` is the kind of figure.

    - ``passed``: the pass rate, with unparseable answers failing.
    - ``answered``: the pass rate over answers that have the score `score`.
    - ``score``: the mean of `score`, weighted by the score `weight` if there is one.
    - ``ratio``: the sum of `score` over the sum of the score `per`. It is a `share` if `score`
      counts a part of what `per` counts; its interval is then within 0 and 1.
    - ``macro_f1``: the mean F1 of the two classes named by the groups of `label`. `score` says
      whether the answer names the instance's class.
    - ``macro_f1_answered``: as ``macro_f1``, over answers that have the score.
    - any other: a kind that a plug-in brings (`FigureKind`).

    A figure with a `score` (except ``macro_f1``), a `label` or an `average` is shown only for runs
    that have these, which lets a task's modes share one table. For ``passed``, ``score`` and kinds
    of plug-ins, the groups of the label `average` have equal weights. Without an `average`, all
    answers have equal weights.
    """

    name: str  # in the paper (``Gen Acc``)
    of: str = "passed"
    score: str = ""
    label: str = ""
    weight: str = ""
    per: str = ""
    average: str = ""
    share: bool = False


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure that a plug-in brings: the mean of a score that is computed for a table.

    Attributes:
        samples: Takes a run's samples (a `harness.store.columns.AttemptTable`) and the figure.
            Returns the samples to average, such as one per cluster, and the name of their score.
        note: The note below a table with the figure. ``{0}`` stands for the figure's name.
    """

    samples: Callable[[Any, TableFigure], tuple[Any, str]]
    note: str


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A results table in the format of a benchmark's paper, for ``harness table``."""

    rows: str  # label whose groups are a model's rows; empty for one row
    columns: str  # label whose groups are a figure's columns; empty for one column
    figures: tuple[TableFigure, ...]  # in the paper's order
    source: str  # the paper and the section, figure or table


class Paper(Struct, frozen=True, kw_only=True):
    """What tables, reports and ablations show of a benchmark's paper (see `Task`)."""

    table: PaperTable | None = None
    claims: tuple[Claim, ...] | None = None  # None if the task has none
    effects: tuple[Effect, ...] = ()
    group_meanings: Mapping[str, Mapping[str, str]] = {}


def read_paper(module: str, name: str = "paper.yaml") -> Paper:
    """Read a benchmark's `Paper` from a YAML file.

    Args:
        module: The path of a module in the file's folder (``__file__``).
        name: The name of the file.
    """
    return yaml.decode((Path(module).parent / name).read_bytes(), type=Paper)


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table about a data set, for ``harness data describe``."""

    columns: tuple[str, ...]  # the headings; the first column names the rows
    rows: Sequence[tuple[str | float | None, ...]]  # None where there is no value
    source: str = ""  # the paper and its table or figure


DECODING_PARAMETERS = frozenset({"temperature", "top_p", "max_tokens", "stop", "extra", "seed"})
"""Names of the backend features that are decoding parameters (see `Backend.features`)."""

CONSTRAINTS: frozenset[ConstraintKind] = frozenset(get_args(ConstraintKind))
"""Names of the backend features that are kinds of decoding constraints."""

LOGPROBS = "logprobs"
PROMPT_LOGPROBS = "prompt_logprobs"
LOGLIKELIHOODS = "loglikelihoods"
OWN_DRAWS = "own_draws"
SAMPLES_PER_CALL = "samples_per_call"
APPLICATION = "application"


class Backend(ABC):
    """Answers requests, through a provider's API or with a local model."""

    features: frozenset[str]
    """The supported features, by name.

    - Decoding parameters: ``temperature``, ``top_p``, ``max_tokens``, ``stop``, ``extra``,
      ``seed``. A run file that sets an unlisted parameter, except ``seed``, is refused before
      any call.
    - ``max_tokens_required``: the provider insists on ``max_tokens``.
    - ``json_schema``, ``regex``, ``choices``, ``grammar``: constrained decoding.
    - ``logprobs``, ``prompt_logprobs``: can return log-probabilities of the most likely tokens
      at each position of an answer, and of the prompt's tokens, respectively.
    - ``loglikelihoods``: answers requests for log-likelihoods (`Request.loglikelihoods`).
    - ``conversation``: accepts more than one turn.
    - ``by_instance``: answers depend on the instance, not only on the prompt.
    - ``own_draws``: sampling is cheap, so instances that share a prompt are sampled separately.
    - ``samples_per_call``: can draw further samples of a prompt with the same call
      (`Request.others`), so that the prompt is paid for once.
    - ``free``: calls cost no money (a local server).
    - ``recorded``: answers were recorded earlier, and decoding parameters are ignored.
    - ``application``: it is the system under test itself, so an exception in its code is a
      failure, and not one of the infrastructure (``model.on_error``).
    - ``simulated``: answers come from a simulated model, and every table says so.
    """

    endpoint: str
    """The address to which requests are sent, or "". It is part of the cache key."""

    cacheable: bool
    """Whether to cache replies. Should be true if replies cost money or time."""

    function_name: str = ""
    """The user's function that answers, for messages; empty if there is none."""

    url_variable: str = ""
    """The variable in which the provider's SDK looks for a base URL. It is not read here."""

    shares_replies: bool | None = None
    """Whether other runs may use its cached replies: the default of ``model.cache``.

    They may if a reply depends on nothing but the request, the endpoint and the options. With None,
    all runs may use the replies of a built-in or installed backend, and only the same run those of
    your own file or function.
    """

    prompt_caching: bool = False
    """Whether to send one of the calls with a common beginning of the prompt before the others.

    The others then read the beginning from the provider's prompt cache.
    """

    preferred_concurrency: int | None = None
    """The initial number of calls in flight, which is also the default maximum, or None.

    For a backend that processes calls in batches.
    """

    may_change: ClassVar[frozenset[str]] = frozenset()
    """Names of options that a resumed run may change, such as the number of GPUs."""

    @abstractmethod
    async def generate(self, request: Request) -> Reply:
        """Return the reply to a request.

        If the request is for log-likelihoods, each assistant message is scored as a continuation of
        the user message before it. The reply's text is then a JSON list with, for each assistant
        message, the sum of its tokens' log-probabilities (natural logarithm), whether all tokens
        are the likeliest and, if known, their number: ``[[-3.5, false, 2], [-0.2, true, 1]]``.

        Raises:
            CallError: If the call fails (see `harness.errors` for its subclasses).
        """

    async def aclose(self) -> None:
        """Close connections and end processes. May be called twice."""

    def check_decoding(self, name: str, decoding: Decoding) -> None:
        """Check that the backend accepts a run file's decoding parameters.

        A seed is always accepted: it also sets the order of instances and seeds simulations.

        Args:
            name: The backend's name in the run file.
            decoding: The parameters. Their constraint is checked elsewhere.

        Raises:
            ConfigError: If it does not accept one of them.
        """
        refused = sorted(decoding.specified_fields().keys() - self.features - {"constraint"})
        if refused:
            keys = ", ".join(f"decoding.{key}" for key in refused)
            endpoint = f" (here: {self.endpoint})" if self.endpoint else ""
            raise ConfigError(
                f"The backend {name!r} does not accept {keys}{endpoint}.",
                "Remove it, or set it to null. 'harness docs providers' says what backends accept.",
            )

    @property
    def ready(self) -> bool:
        """Whether the backend can answer now. If not, `start` is called."""
        return True

    async def start(self, on_status: Callable[[str], None]) -> None:
        """Wait until the backend can answer. ``on_status`` is called with messages for the user.

        Raises:
            CallError: If it cannot start. A FatalCallError ends the run.
        """

    @property
    def capacity(self) -> int | None:
        """The number of calls that may be in flight now, or None if this does not change.

        For a backend that works on several machines, which may join or fail during a run.
        """
        return None

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes, by name, of everything that answers depend on besides the options.

        Weights, for example.
        """
        return {}

    def key_part(self, request: Request) -> str:
        """Return text to add to a request's cache key, or "".

        For a backend whose options may change what it sends, or answers, for the same request. If
        a third-party backend does not override this method, all its options are part of the key.
        """
        return ""


class Judge(ABC):
    """A scorer of answers that asks a model. Its calls use the run's cache, limits and budget."""

    verdicts: bool = True
    """Whether the judge's scores decide which answers pass."""

    by_criteria: ClassVar[bool] = False
    """Whether the judge gives verdicts on the criteria of a task (`Task.criteria`)."""

    @abstractmethod
    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return the questions to ask the judge's model about an answer. Must be a pure function.

        If there are no questions, `parse` gets no replies, and may still return scores.
        """

    @abstractmethod
    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return the scores in the replies, by name. Must be a pure function.

        There is one reply per sample of each question, in the same order. Unless there are no
        questions, at least one reply has text. A refused or empty reply arrives as empty text,
        which should be treated as an abstention. If the replies contain no verdict, raise
        `harness.errors.Unparseable`, and never score 0. A judge that needs the judged answer
        declares a further parameter, ``text``.
        """

    def next_questions(
        self, instance: Instance[Any], text: str, replies: Sequence[Reply]
    ) -> Sequence[Question]:
        """Return the questions that follow these replies, or () if `parse` can read the replies.

        For judges that hold a conversation. Must be a pure function. There is one reply per sample
        of each question so far, in order. If a call fails, no further questions are asked.
        """
        return ()

    def warnings(self, instances: Iterable[Instance[Any]]) -> str:
        """Return warnings to show before any call, such as about instances that it cannot score.

        The result is "" if there are none.
        """
        return ""

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes, by name, of everything that scores depend on besides the options."""
        return {}

    def simulated(self, request: Request) -> str:
        """Return a reply that a good model could give to a request of this judge.

        Without this method, no simulated model can judge.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be simulated")


def decides_by_criteria(judge: object) -> bool:
    """Return whether a judge, its class or a factory of judges decides on a task's criteria."""
    judge_type = judge if isinstance(judge, type) else type(judge)
    return issubclass(judge_type, Judge) and judge_type.by_criteria


class OtherAnswers(Protocol):
    """The answers of another run, with which a judge compares those of this run."""

    def has(self, instance: Instance[Any]) -> bool:
        """Return whether there is an answer to an instance."""

    def text(self, instance: Instance[Any]) -> str | None:
        """Return the answer to an instance, or None if there is none."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes that identify these answers, by name."""


AnswersOf = Callable[[str], OtherAnswers]
"""A function that maps a run's name to its answers. It raises a `UserError` if it cannot."""


class Checker(ABC):
    """A rule that scores a text without calling a model."""

    @abstractmethod
    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return the score of a text. Must be a pure function of its arguments.

        Raises:
            Unparseable: If the text cannot be read.
        """


class Metric(ABC):
    """A score that compares an answer with references, such as a learned metric."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a string that identifies everything that scores depend on, for the manifest."""

    @abstractmethod
    def score(self, answer: str, references: Sequence[str]) -> float:
        """Return an answer's score, given the instance's references. Must be a pure function."""


class Measure(ABC):
    """A number that is computed from a text, for constraints with ``op: measure``."""

    @abstractmethod
    def number(self, units: Sequence[str]) -> int:
        """Compute the number from a text's units, such as its words. Must be a pure function.

        ``units`` have no periods and spaces at their ends.
        """

    @abstractmethod
    def phrase(self, units: str) -> str:
        """Return a phrase for the number in instructions, given the units' name ("words")."""


class Loader(ABC):
    """A source of documents. If it cannot be read, its methods raise `harness.errors.UserError`."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Yield the documents' names, always in the same order, without reading the documents."""

    @abstractmethod
    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the same order as `names` yields them.

        A document that cannot be read has the reason in its ``problem``.
        """


Filter = Callable[[str], bool]
"""A function that returns whether to drop a paragraph or sentence of a corpus.

It must be pure, and fast for any text.
"""

PostProcessor = Callable[[str], str]
"""A function that returns a cleaned paragraph. It must be pure, and fast for any text."""


class Observer(ABC):
    """Receives the events of one session of a run, for example to report them to a tracker.

    The run waits for each call, so methods must return at once and queue slow work. If a method
    raises an exception, the run continues, and the observer is not called again in this session.
    """

    @abstractmethod
    def run_begun(self, run: ObservedRun) -> None:
        """Called when a session of a new or resumed run begins."""

    @abstractmethod
    def attempt(self, attempt: Attempt) -> None:
        """Called after an attempt of this session is written to ``attempts.jsonl``."""

    @abstractmethod
    def run_ended(self, ended: str, metrics: Mapping[str, Any]) -> None:
        """Called after the session has ended and the run's metrics are written.

        Args:
            ended: ``finished``, ``interrupted``, ``budget`` or ``failed``.
            metrics: The content of ``metrics.json``. Empty if it could not be computed.
        """


D = TypeVar("D")


class GivenAnswer(NamedTuple):
    """An answer, with the id of its instance and the number of its sample."""

    instance: str
    sample: int  # from 0
    text: str
    turn: int = 1  # of the user, in a conversation
    scores: Mapping[str, float] = {}  # by the task, without missing values


Aggregates = Mapping[str, Mapping[str, float]]
"""Metrics that a task computes from all answers, by part of the benchmark and metric."""


class Task(ABC, Generic[D]):
    """A benchmark: its instances, prompts and scoring. ``D`` is the type of an instance's data."""

    on_truncated: Literal["fail", "grade"]
    """Whether answers that are cut off at ``max_tokens`` fail, or are graded like others."""

    measure: str | None = None
    """The name of the score that is the primary metric, which tables show first.

    None for the pass rate. A task with a measure has `score_of_no_answer`, too.
    """

    table: ClassVar[PaperTable | None] = None
    """The results table of the task's paper."""

    effects: ClassVar[tuple[Effect, ...]] = ()
    """The figures of the task's paper that the report reproduces."""

    group_meanings: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """What the instances in each group have in common, by label and group."""

    claims: ClassVar[tuple[Claim, ...] | None] = None
    """The claims of the task's paper, to be tested by ablations.

    Instances must have the groups ``encoding`` (the parts of an instruction that the prompt
    contains) and ``examples`` (the number of examples shown).
    """

    @abstractmethod
    def instances(self) -> Iterator[Instance[D]]:
        """Yield the instances lazily, in the order of the data set. Their ids must be unique."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes, by name, of everything that scores depend on, such as the data."""

    @abstractmethod
    def messages(self, instance: Instance[D], shots: Sequence[Instance[D]]) -> tuple[Message, ...]:
        """Return the messages of round 1.

        ``shots`` are other instances to show, with their reference answers, in the task's own
        format. There are none unless the run file has ``shots: {form: task}``.
        """

    @abstractmethod
    def score(self, instance: Instance[D], text: str) -> Mapping[str, Score]:
        """Return an answer's scores by name. Must be a pure function.

        Raises:
            Unparseable: If the answer cannot be read.
        """

    @abstractmethod
    def feedback(self, instance: Instance[D], text: str, scores: Mapping[str, Score]) -> str:
        """Return the feedback on an answer. It is sent as the user's next message."""

    @abstractmethod
    def reference(self, instance: Instance[D]) -> str | None:
        """Return an answer that passes, or None if none is known."""

    def expected_answer(self, instance: Instance[D]) -> str | None:
        """Return the answer in the data, even if it fails, or None if there is none."""
        return self.reference(instance)

    def wrong_answer(self, instance: Instance[D]) -> str | None:
        """Return a plausible answer that fails, or None if none is known.

        It makes simulated runs realistic.
        """
        return None

    def score_of_no_answer(self, instance: Instance[D]) -> Mapping[str, Score]:
        """Return the scores of an answer that is empty, refused, unparseable, or truncated.

        Truncated answers are included only if the task does not grade them (`on_truncated`).
        Without scores, failed answers are missing from the means, and a model that refuses
        hard instances looks good.
        """
        return {}

    def score_of_refused_constraint(self, instance: Instance[D]) -> Mapping[str, Score]:
        """Return the scores of an instance whose decoding constraint the provider refuses.

        For a task that measures which constraints a provider accepts: its outcome is then
        ``refused``. For other tasks it is a failed call, without a verdict.
        """
        return {}

    def score_names(self, instance: Instance[D]) -> Collection[str] | None:
        """Return the names of all scores that an answer to an instance may have.

        Bounds on other scores are then rejected before any call. None if the names are unknown.
        """
        return None

    def score_parsed(self, instance: Instance[D], answer: str) -> Mapping[str, Score]:
        """Return the scores, by name, of the answer that a judge extracted ("" if it found none).

        Must be a pure function. The scores have no verdict (``passed`` is None), because the task's
        own parser decides.

        Raises:
            Unparseable: If ``answer`` cannot be a final answer.
        """
        raise NotImplementedError(f"{type(self).__name__} has no score_parsed")

    def extracted(self, instance: Instance[D], text: str) -> str | None:
        """Return the part of a reply that is scored, for reports. Must be a pure function.

        The result is None if the whole reply is scored, or if the part is missing.
        """
        return None

    def aggregate_answers(self, answers: Iterable[GivenAnswer]) -> Aggregates:
        """Return metrics over all of a run's answers, other than means, such as a perplexity.

        ``answers`` are those of round 1, or of all turns of a conversation, ordered by instance,
        sample and turn. Missing answers are omitted.
        """
        return {}

    @property
    def constraint_kind(self) -> ConstraintKind | None:
        """The kind of the task's constraints, which the backend must support, or None."""
        return None

    def constraint(self, instance: Instance[D]) -> DecodingConstraint:
        """Return the decoding constraint for an instance (``decoding: {constraint: task}``)."""
        raise NotImplementedError(f"{type(self).__name__} has no constraint")

    @property
    def needed_features(self) -> frozenset[str]:
        """Names of the backend features that the task needs."""
        return frozenset()

    @property
    def needed_samples(self) -> int:
        """The minimum number of samples per instance."""
        return 1

    def adapted_request(self, instance: Instance[D], request: Request) -> Request:
        """Adapt the request for an instance's answer, for example to add stop texts.

        Must be a pure function. Values set by the run file should not be replaced. Parameters that
        the backend does not accept are removed afterwards.
        """
        return request

    def leaks(self, instance: Instance[D], shot: Instance[D]) -> bool:
        """Return whether a few-shot example reveals an instance's answer.

        That is, whether the shot's reference answer would also be correct for the instance.
        """
        return False

    def check_shots(self) -> None:
        """Check that the task accepts few-shot examples (``task.shots``).

        Raises:
            ConfigError: If it does not.
        """

    def must_keep(self, instance: Instance[D]) -> Sequence[str] | None:
        """Return the strings that a paraphrase of the prompt or feedback must contain unchanged.

        The result is None if the task cannot be paraphrased.
        """
        return None

    def prompt_errors(self) -> list[str]:
        """Return a sentence for each problem with the task's prompts."""
        return []

    def instruction(self, instance: Instance[D]) -> str:
        """Return the instruction given to the model, as a judge should read it."""
        raise NotImplementedError(f"{type(self).__name__} has no instruction")

    def criteria(self, instance: Instance[D]) -> Sequence[Criterion]:
        """Return the criteria that judges check, which are independent.

        A task with criteria has `instruction`, too.
        """
        return ()

    def judged_by(self, instance: Instance[D], judge: str) -> bool:
        """Return whether the run's judge of this name scores the answers to an instance."""
        return True

    def for_judge(self, judge: str) -> Task[D]:
        """Return the task with the criteria for the judge of this name."""
        return self

    def turns(self, instance: Instance[D]) -> int:
        """Return the number of the user's turns: 1, or more for a scripted conversation.

        In such a conversation, the user's turns are known before the model's answers.
        """
        return 1

    def at_turn(self, instance: Instance[D], answers: Sequence[str]) -> Instance[D]:
        """Return the instance for a turn of a conversation.

        Its messages are the conversation so far, ending with the user's turn. Its scores, criteria
        and reference are those of this turn's answer.

        Args:
            instance: The instance for the first turn.
            answers: The model's answers to all earlier turns.
        """
        return instance

    def user_role(self, instance: Instance[D]) -> UserRole | None:
        """Return the user whom a model plays after the first turn, or None if there is none."""
        return None

    def at_played_turn(
        self, instance: Instance[D], messages: Sequence[Message], last: bool
    ) -> Instance[D]:
        """Return the instance for a turn of a conversation with a played user.

        Its scores and criteria are those of the model's next answer.

        Args:
            instance: The instance, with the scores and criteria of the last answer.
            messages: The conversation so far, ending with the user's turn.
            last: Whether the next answer is the last one.
        """
        return instance

    @staticmethod
    def fields(encoding: str) -> Mapping[str, str]:
        """Return the fields that an encoding of prompts contains, for a task with `claims`.

        The result maps short names to the full names in the paper.
        """
        return {}

    def describe(self) -> Iterator[DataTable]:
        """Yield tables about the data set, such as counts and lengths."""
        yield from ()

    def row_fields(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Yield each instance's id and the fields of its row, for exported tables.

        For a task whose instances are rows of a user's file.
        """
        yield from ()


_METHOD_PAIRS = (
    (Task.turns, Task.at_turn),
    (Task.user_role, Task.at_played_turn),
    (Task.criteria, Task.instruction),
)
"""Pairs of methods: a task that overrides the first must override the second."""


def task_problems(task: Task[Any]) -> Iterator[str]:
    """Yield a sentence for each invalid attribute and each missing method of a task."""
    if task.on_truncated not in ("fail", "grade"):
        yield "Its 'on_truncated' is neither 'fail' nor 'grade'."
    if task.measure is not None and not overrides_method(task, Task.score_of_no_answer):
        yield "It has a 'measure' and no 'score_of_no_answer'."
    if not overrides_method(task, Task.constraint) and task.constraint_kind is not None:
        yield "It has a 'constraint_kind' and no 'constraint'."
    for method, needed_method in _METHOD_PAIRS:
        if overrides_method(task, method) and not overrides_method(task, needed_method):
            yield f"It has {method.__name__!r} and no {needed_method.__name__!r}."


BASE_CLASSES: Mapping[str, Any] = {
    "tasks": Task,
    "backends": Backend,
    "judges": Judge,
    "checkers": Checker,
    "metrics": Metric,
    "measures": Measure,
    "loaders": Loader,
    "filters": Callable,  # any function
    "post_processors": Callable,
    "observers": Observer,
}
"""The base class of each kind of plug-in."""
