"""The members that a plug-in must or may implement, as one Protocol per capability.

A plug-in need not inherit from a Protocol. `harness.plugin_loader` checks plug-ins against
`CAPABILITIES`, because a misspelt method would otherwise be ignored. The harness asks for
capabilities by type: ``isinstance(task, Judged)``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

from harness.ports.batches import Batched as Batched
from harness.ports.batches import BatchLimits as BatchLimits
from harness.ports.batches import BatchState as BatchState
from harness.ports.batches import BatchUnsure as BatchUnsure
from harness.ports.caching import CachesPrompts as CachesPrompts
from harness.ports.caching import KeyedByRequest as KeyedByRequest
from harness.ports.caching import SharesReplies as SharesReplies
from harness.ports.conversations import Played as Played
from harness.ports.conversations import Scripted as Scripted
from harness.ports.judges import Advising as Advising
from harness.ports.judges import AnswersOf as AnswersOf
from harness.ports.judges import ByCriteria as ByCriteria
from harness.ports.judges import Conversing as Conversing
from harness.ports.judges import HasWarnings as HasWarnings
from harness.ports.judges import Judge as Judge
from harness.ports.judges import OtherAnswers as OtherAnswers
from harness.ports.judges import Simulatable as Simulatable
from harness.ports.judges import decides_by_criteria as decides_by_criteria
from harness.ports.observers import Observer as Observer
from harness.ports.papers import Claim as Claim
from harness.ports.papers import Claiming as Claiming
from harness.ports.papers import DataTable as DataTable
from harness.ports.papers import Described as Described
from harness.ports.papers import Effect as Effect
from harness.ports.papers import Explained as Explained
from harness.ports.papers import Extracting as Extracting
from harness.ports.papers import PaperTable as PaperTable
from harness.ports.papers import Pictured as Pictured
from harness.ports.papers import Rowed as Rowed
from harness.ports.papers import Tabled as Tabled
from harness.ports.papers import TableFigure as TableFigure
from harness.ports.requesting import Aggregates as Aggregates
from harness.ports.requesting import Aggregating as Aggregating
from harness.ports.requesting import GivenAnswer as GivenAnswer
from harness.ports.requesting import NamesScores as NamesScores
from harness.ports.requesting import Requesting as Requesting
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
"""Names of the backend features that are decoding parameters (see `Backend.features`)."""

CONSTRAINTS: frozenset[ConstraintKind] = frozenset(get_args(ConstraintKind))
"""Names of the backend features that are kinds of decoding constraints."""

LOGPROBS = "logprobs"
PROMPT_LOGPROBS = "prompt_logprobs"
LOGLIKELIHOODS = "loglikelihoods"
OWN_DRAWS = "own_draws"
SAMPLES_PER_CALL = "samples_per_call"
APPLICATION = "application"


@runtime_checkable
class Backend(Protocol):
    """Answers requests, through a provider's API or with a local model."""

    @property
    def features(self) -> frozenset[str]:
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

    @property
    def endpoint(self) -> str:
        """The address to which requests are sent, or "". It is part of the cache key."""

    @property
    def cacheable(self) -> bool:
        """Whether to cache replies. Should be true if replies cost money or time."""

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
        """Close connections and end processes."""


@runtime_checkable
class Startable(Protocol):
    """A backend that must start up before it can answer."""

    @property
    def ready(self) -> bool:
        """Whether the backend can answer now."""

    async def start(self, on_status: Callable[[str], None]) -> None:
        """Wait until the backend can answer. ``on_status`` is called with messages for the user.

        Raises:
            CallError: If it cannot start. A FatalCallError ends the run.
        """


@runtime_checkable
class PreferredConcurrency(Protocol):
    """A backend that works on many calls at once, such as an engine that batches its calls."""

    @property
    def preferred_concurrency(self) -> int:
        """The number of calls in flight to begin with, which is also the default maximum."""


@runtime_checkable
class Elastic(Protocol):
    """A backend that works on several machines, which may join or fail during a run."""

    @property
    def capacity(self) -> int:
        """The number of calls that may be in flight now."""


@runtime_checkable
class Fingerprinted(Protocol):
    """A backend or judge whose results depend on more than its options, such as weights."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes, by name, of everything that results depend on besides the options."""


@runtime_checkable
class Resumable(Protocol):
    """A backend class whose attribute ``may_change`` lists options that do not affect answers."""

    @property
    def may_change(self) -> frozenset[str]:
        """Names of options that a resumed run may change, such as the number of GPUs."""


@runtime_checkable
class Checker(Protocol):
    """A rule that scores a text without calling a model."""

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return the score of a text. Must be a pure function of its arguments.

        Raises:
            Unparseable: If the text cannot be read.
        """


@runtime_checkable
class Metric(Protocol):
    """A score that compares an answer with references, such as a learned metric."""

    def fingerprint(self) -> str:
        """Return a string that identifies everything that scores depend on, for the manifest."""

    def score(self, answer: str, references: Sequence[str]) -> float:
        """Return an answer's score, given the instance's references. Must be a pure function."""


@runtime_checkable
class Measure(Protocol):
    """A number that is computed from a text, for constraints with ``op: measure``."""

    def number(self, units: Sequence[str]) -> int:
        """Return the number that is computed from a text. Must be a pure function.

        ``units`` are the text's units, such as its words, without periods and spaces around them.
        """

    def phrase(self, units: str) -> str:
        """Return a phrase for the number in instructions, given the units' name ("words")."""


@runtime_checkable
class Loader(Protocol):
    """A source of documents. If it cannot be read, its methods raise `harness.errors.UserError`."""

    def names(self) -> Iterator[str]:
        """Yield the documents' names, always in the same order, without reading the documents."""

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with the given names, in the same order as `names` yields them.

        A document that cannot be read has the reason in its ``problem``.
        """


@runtime_checkable
class Divisible(Protocol):
    """A `Loader` that can divide its corpus into parts, for several machines to read."""

    def parts(self) -> Iterator[Loader]:
        """Yield picklable loaders, each of some consecutive documents, in order.

        The documents have the same names as in the whole corpus.
        """


@runtime_checkable
class Filter(Protocol):
    """A rule that decides which paragraphs and sentences of a corpus are not natural text."""

    def __call__(self, text: str) -> bool:
        """Return whether to drop the text. Must be a pure function, and fast for any text."""


@runtime_checkable
class PostProcessor(Protocol):
    """A rule that cleans the paragraphs of a corpus that have passed its filters."""

    def __call__(self, text: str) -> str:
        """Return the cleaned text. Must be a pure function, and fast for any text."""


@runtime_checkable
class Task(Protocol[D]):
    """A benchmark: its instances, prompts and scoring."""

    @property
    def on_truncated(self) -> Literal["fail", "grade"]:
        """Whether answers cut off at ``max_tokens`` fail or are graded as usual."""

    def instances(self) -> Iterator[Instance[D]]:
        """Yield the instances lazily, in the order of the data set. Their ids must be unique."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes, by name, of everything that scores depend on, such as the data."""

    def messages(self, instance: Instance[D], shots: Sequence[Instance[D]]) -> tuple[Message, ...]:
        """Return the messages of round 1.

        ``shots`` are other instances to show, with their reference answers, in the task's own
        format. There are none unless the run file has ``shots: {form: task}``.
        """

    def score(self, instance: Instance[D], text: str) -> Mapping[str, Score]:
        """Return an answer's scores by name. Must be a pure function.

        Raises:
            Unparseable: If the answer cannot be read.
        """

    def feedback(self, instance: Instance[D], text: str, scores: Mapping[str, Score]) -> str:
        """Return the feedback on an answer. It is sent as the user's next message."""

    def reference(self, instance: Instance[D]) -> str | None:
        """Return an answer that passes, or None if none is known."""


@runtime_checkable
class Targeted(Protocol[D]):
    """A task whose data has expected answers, some of which may fail its own checks."""

    def expected_answer(self, instance: Instance[D]) -> str | None:
        """Return the answer in the data, even if it fails, or None if there is none."""


@runtime_checkable
class ScoresNoAnswer(Protocol[D]):
    """A task that has scores for answers that cannot be graded."""

    def score_of_no_answer(self, instance: Instance[D]) -> Mapping[str, Score]:
        """Return the scores of an answer that is empty, refused, unparseable, or truncated.

        Truncated answers are included only if the task does not grade them (`on_truncated`).
        Without scores, failed answers would be missing from the means, and a model that refuses
        hard instances would look good.
        """


@runtime_checkable
class ScoresRefusedConstraint(Protocol[D]):
    """A task that measures which decoding constraints a provider accepts.

    A refused constraint then fails, with the outcome ``refused``. For other tasks it is a failed
    call, without a verdict.
    """

    def score_of_refused_constraint(self, instance: Instance[D]) -> Mapping[str, Score]:
        """Return the scores of an instance whose decoding constraint the provider refuses."""


@runtime_checkable
class Measured(ScoresNoAnswer[D], Protocol[D]):
    """A task whose primary metric is a score rather than the pass rate."""

    @property
    def measure(self) -> str:
        """The name of the task's primary metric, which tables show first."""


@runtime_checkable
class Paraphrasable(Protocol[D]):
    """A task whose instructions and feedback a second model may paraphrase."""

    def must_keep(self, instance: Instance[D]) -> Sequence[str]:
        """Return the strings that a paraphrase must contain unchanged."""


@runtime_checkable
class LeakAware(Protocol[D]):
    """A task that can tell whether a few-shot example reveals an instance's answer."""

    def leaks(self, instance: Instance[D], shot: Instance[D]) -> bool:
        """Return whether the shot's reference answer would also be correct for the instance."""


@runtime_checkable
class Fallible(Protocol[D]):
    """A task that knows plausible wrong answers, which make simulated runs realistic."""

    def wrong_answer(self, instance: Instance[D]) -> str | None:
        """Return a plausible answer that fails, or None if none is known."""


@runtime_checkable
class Constraining(Protocol[D]):
    """A task that can constrain its answers' format, for ``decoding: {constraint: task}``."""

    @property
    def constraint_kind(self) -> ConstraintKind:
        """The kind of the task's constraints. The backend must support it."""

    def constraint(self, instance: Instance[D]) -> DecodingConstraint:
        """Return the decoding constraint for an instance."""


@runtime_checkable
class Parsed(Protocol[D]):
    """A task that can score the final answer that a judge has extracted from a model's text."""

    def score_parsed(self, instance: Instance[D], answer: str) -> Mapping[str, Score]:
        """Return the scores, by name, of the answer that a judge extracted ("" if it found none).

        Must be a pure function. The scores have no verdict (``passed`` is None), because the task's
        own parser decides.

        Raises:
            Unparseable: If ``answer`` cannot be a final answer.
        """


@runtime_checkable
class Judged(Protocol[D]):
    """A task whose instances have criteria that judges check."""

    def instruction(self, instance: Instance[D]) -> str:
        """Return the instruction given to the model, as a judge should read it."""

    def criteria(self, instance: Instance[D]) -> Sequence[Criterion]:
        """Return the criteria that an answer must satisfy: at least one, and all independent."""


@runtime_checkable
class JudgeRouting(Protocol[D]):
    """A task that chooses, for each instance, which of the run's judges score its answers."""

    def judged_by(self, instance: Instance[D], judge: str) -> bool:
        """Return whether the run's judge of this name scores the answers to an instance."""

    def for_judge(self, judge: str) -> Task[D]:
        """Return the task with the criteria for the judge of this name."""


@runtime_checkable
class PromptChecked(Protocol):
    """A task that can check its own prompts."""

    def prompt_errors(self) -> list[str]:
        """Return a sentence for each problem with the task's prompts."""


CAPABILITIES: Mapping[str, tuple[Any, ...]] = {
    "tasks": (
        *(Task, ScoresNoAnswer, ScoresRefusedConstraint, Measured, Paraphrasable, LeakAware),
        *(Fallible, Constraining, Targeted, Parsed, Extracting, Judged, JudgeRouting, Scripted),
        *(PromptChecked, Claiming, Pictured, Explained, Tabled, Described, Requesting, Aggregating),
        *(Rowed, Played, NamesScores),
    ),
    "backends": (
        *(Backend, Startable, PreferredConcurrency, CachesPrompts, Resumable, KeyedByRequest),
        *(SharesReplies, Fingerprinted, Batched, Elastic),
    ),
    "judges": (Judge, Conversing, HasWarnings, Advising, ByCriteria, Simulatable, Fingerprinted),
    "checkers": (Checker,),
    "metrics": (Metric,),
    "measures": (Measure,),
    "loaders": (Loader, Divisible),
    "filters": (Filter,),
    "post_processors": (PostProcessor,),
    "observers": (Observer,),
}
"""For each kind of plug-in, its required Protocol and then the optional ones."""
