"""A dry run plans and estimates a run without calling a model or writing anything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.analysis.rescoring import first_reason
from harness.calls.calls import backend_key
from harness.calls.database import LOCKED_S
from harness.calls.prompt_cache import SharedBeginnings
from harness.ports import Batched, CachesPrompts, Targeted
from harness.records import Instance, Message, Question, Reply, Request, Usage, messages_hash
from harness.run.assessment import assess
from harness.run.job import Job
from harness.run.plan import RunPlan
from harness.run.session import open_cache, replies_path

if TYPE_CHECKING:
    from harness.run.later_judge import LaterJudge
    from harness.run.models import Model
    from harness.store.judgements import JudgementOutcome

CHARACTERS_PER_TOKEN = (6.0, 2.5)  # the usual range, from plain English to code
FEEDBACK_TOKENS = 150  # tokens of one feedback message, generously estimated


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """Lower and upper bounds of an estimate. ``high`` may be infinite."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: EstimateRange) -> EstimateRange:
        return EstimateRange(self.low + other.low, self.high + other.high)


class CallEstimate(NamedTuple):
    """The number, tokens and cost (US dollars) of calls to make."""

    calls: EstimateRange
    input_tokens: EstimateRange
    output_tokens: EstimateRange
    usd: EstimateRange | None  # None: the price is unknown
    saved_usd: EstimateRange  # by the provider's prompt cache; only `usd.low` is reduced by it


@dataclass(frozen=True, slots=True)
class DryRun:
    """A run's plan and estimated cost.

    The lower bounds assume that every first answer passes. The upper bounds assume that every
    feedback round is needed and that no feedback call is shared or cached.
    """

    instances: int
    samples: int
    owed_samples: int
    calls: frozenset[str]  # ids of the distinct first-round calls of unfinished samples
    cached: int  # how many of these calls have a reply in the cache
    model: CallEstimate  # the calls of the evaluated model
    references: int  # reference answers that the rules can check
    failed_references: Mapping[str, str]  # why reference answers fail, by the instance's id
    first: tuple[Message, ...] | None  # an example of the prompts; None if no sample is left
    judges: Mapping[str, CallEstimate] = field(default_factory=dict)

    @property
    def total_usd(self) -> EstimateRange | None:
        """The cost (US dollars) of the run's model and judges, or None if a price is unknown."""
        parts = [one.usd for one in (self.model, *self.judges.values())]
        known = [part for part in parts if part is not None]
        return sum(known, EstimateRange()) if len(known) == len(parts) else None

    @property
    def total_saved_usd(self) -> EstimateRange:
        """The US dollars that providers' prompt caches save for the run's model and its judges."""
        estimates = (self.model, *self.judges.values())
        return sum((one.saved_usd for one in estimates), EstimateRange())


class _Calls:
    """Running totals for a model's calls: bounds on their number, tokens and cost."""

    def __init__(self, model: Model | None) -> None:
        price = model.usual_price if model else None
        self._price = price.cost if price else None
        backend = model.backend if model else None
        caching = isinstance(backend, CachesPrompts) and backend.prompt_caching
        self._beginnings = SharedBeginnings() if caching else None
        self.calls = self.read = self.written = self.usd = self.saved = EstimateRange()

    def estimate(self) -> CallEstimate:
        usd = self.usd if self._price else None
        return CallEstimate(self.calls, self.read, self.written, usd, self.saved)

    def add(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        *,
        certain: bool,
        before: int = 0,
        further: float = 0,
        answer: int = 1,
        joint: bool = False,
    ) -> None:
        """Add a call to the bounds. A call that is not ``certain`` only raises the upper bounds.

        ``messages`` is the prompt of round 1, which ``before`` earlier rounds and at most
        ``further`` tokens lengthen. The reply has ``answer`` to ``max_tokens`` tokens (None: no
        limit). A ``joint`` call may be combined with the previous one, which has its prompt.
        """
        characters = sum(len(message.content) for message in messages)
        fewest, most = (characters / each for each in CHARACTERS_PER_TOKEN)
        longest = inf if max_tokens is None else max_tokens
        most += further
        if before:
            most += before * (FEEDBACK_TOKENS + longest)
        fewest = 0 if joint else fewest
        self.calls += EstimateRange(certain and not joint, 1)
        self.read += EstimateRange(fewest * certain, most)
        self.written += EstimateRange(answer * certain, longest)
        if (price := self._price) is not None:
            low = price(Usage(round(fewest), answer)) if certain else 0.0
            if max(most, longest) < inf:
                high = price(Usage(round(most), round(longest)))
            else:
                high = inf if price(Usage(10**6, 10**6)) else 0.0
            saved = self._saved(messages) if certain and not joint else EstimateRange()
            self.usd += EstimateRange(max(0.0, low - saved.low), high)
            self.saved += saved

    def _saved(self, messages: Sequence[Message]) -> EstimateRange:
        """Return how much a call saves (US dollars) by reading its beginning from the cache."""
        if self._beginnings is None or self._price is None:
            return EstimateRange()
        new = self._beginnings(messages) is None
        found = self._beginnings.add(messages)
        if found is None or found.cut is None or new:
            return EstimateRange()
        place, at = found.cut
        kept = sum(len(message.content) for message in messages[:place]) + at
        tokens = [round(kept / each) for each in CHARACTERS_PER_TOKEN]
        return EstimateRange(*(self._price(Usage(n)) - self._price(Usage(n, 0, n)) for n in tokens))

    def add_questions(
        self, questions: Sequence[Question], *, certain: bool = True, further: float = 0
    ) -> None:
        for asked in questions:
            longest = asked.decoding.max_tokens
            for _ in range(asked.samples):
                self.add(asked.messages, longest, certain=certain, further=further)


def estimate_run(job: Job, before: Collection[str] = (), *, references: bool = True) -> DryRun:
    """Estimate a run's calls and cost.

    Calls whose ids are in ``before`` count as cached, because an earlier run will have made them.
    ``references`` says whether to score the reference answers too, which takes time.
    """
    backend, plan = job.model.backend, job.plan()
    by_instance = "by_instance" in backend.features
    key = partial(backend_key(job.run.model.backend, backend), by_instance=by_instance)
    with _cached(job, before) as cached:
        found = count_work(plan, key, cached, job.model, references=references)
    return replace(found, judges=_judge_calls(job, plan)) if job.judges else found


def estimate_waves(job: Job) -> EstimateRange | None:
    """Return how often a run waits for batches, or None if it uses none.

    In each round, it waits once for the run's model and once for the judges, if they use batches.
    """
    batched = job.model.limits.batch is not None
    judged = any(judge.model.limits.batch is not None for judge in job.judges)
    if not (batched or judged):
        return None
    each, rounds = batched + judged, job.run.rounds
    return EstimateRange(each * (1 if rounds.stop_on_pass else rounds.max), each * rounds.max)


def batch_hours(job: Job) -> int:
    """Return the longest time, in hours, that providers state for a run's batches (0 if none)."""
    models = [job.model, *(judge.model for judge in job.judges)]
    stated = [
        limits.window_h
        for model in models
        if model.limits.batch is not None and isinstance(model.backend, Batched)
        if (limits := model.backend.batch_limits) is not None
    ]
    return max(stated, default=0)


def estimate_judge(
    job: LaterJudge, retried: Collection[JudgementOutcome] = ()
) -> tuple[int, EstimateRange]:
    """Return the number and the cost in US dollars of a judge's missing calls.

    These are the judge's first questions about each answer that it has yet to judge. The questions
    that follow from its replies are not counted. Calls whose replies are cached are included, and
    an unknown price counts as 0.
    """
    total = _Calls(job.model)
    for questions in job.owed(retried):
        total.add_questions(questions)
    return round(total.calls.high), total.usd


def _judge_calls(job: Job, plan: RunPlan) -> dict[str, CallEstimate]:
    """Estimate the calls of each judge.

    The reference answers stand in for the future answers, which may be as long as ``max_tokens``
    allows. Questions that follow from a judge's replies are not counted. Calls whose replies are
    cached are.
    """
    from harness.run.judging import OwedJudgements

    longest = inf if job.run.decoding.max_tokens is None else job.run.decoding.max_tokens
    rounds, judges = job.run.rounds, {judge.name: judge for judge in job.judges}
    totals = {name: _Calls(judge.model) for name, judge in judges.items()}
    asked: Mapping[str, Sequence[Question]] = {}
    last: Instance[Any] | None = None
    for owed in plan.owed():
        if owed.instance is not last:  # the samples of an instance follow each other
            last, text = owed.instance, job.task.reference(owed.instance) or "…"
            own = {name: one.judge for name, one in judges.items() if one.scores(last)}
            asked = {name: judge.questions(last, text) for name, judge in own.items()}
        for number in range(owed.round, rounds.max + 1):
            certain = number == owed.round or not rounds.stop_on_pass
            for name, questions in asked.items():
                totals[name].add_questions(questions, certain=certain, further=longest)
    late = OwedJudgements(job.folder.attempts, list(judges))
    for instance, attempt, names in late.work(job.data):
        for name in names:
            if judges[name].scores(instance):
                found = judges[name].judge.questions(instance, attempt.text or "")
                totals[name].add_questions(found)
    return {name: total.estimate() for name, total in totals.items()}


def count_work(
    plan: RunPlan,
    key: Callable[[Request], str],
    cached: Callable[[str], bool],
    model: Model | None = None,
    *,
    references: bool = True,
) -> DryRun:
    """Count a plan's unfinished work, and estimate its cost, which is unknown without ``model``.

    ``key`` returns a request's call id, and ``cached`` whether the reply to a call id is in the
    cache. ``references`` says whether to score the reference answers too.
    """
    samples, owed_samples = plan.count()
    calls: set[str] = set()
    n_cached, first, with_shots = 0, None, False
    total, rounds, longest = _Calls(model), plan.run.rounds, plan.run.decoding.max_tokens
    last, drawn = None, 0  # an instance, and how many of its samples the calls so far draw
    per_call = model.limits.samples_per_call if model else 1
    for owed in plan.owed():
        messages = plan.opening(owed.instance).messages
        if first is None or (plan.shots and not with_shots):
            # Prefer a prompt with shots to show, since some instances may lack them.
            with_shots = messages != plan.task.messages(owed.instance, ())
            first = messages if first is None or with_shots else first
        if owed.round == 1:
            request = plan.request(owed, 1, messages, messages_hash(messages))
            name = key(request)
            if name not in calls and cached(name):
                n_cached += 1
            elif name not in calls:
                reference = plan.task.reference(owed.instance) or ""
                tokens = round(len(reference) / CHARACTERS_PER_TOKEN[0])
                most = request.decoding.max_tokens
                answer = max(1, min(tokens, most or tokens))
                last, drawn = owed.instance, 1 + (drawn if owed.instance is last else 0)
                joint = per_call > 1 and drawn % per_call != 1
                total.add(request.sent, most, certain=True, answer=answer, joint=joint)
            calls.add(name)
        for number in range(max(2, owed.round), rounds.max + 1):
            certain = number == owed.round or not rounds.stop_on_pass
            total.add(messages, longest, certain=certain, before=number - 1)
    n_references, failed = _check_references(plan) if references else (0, {})
    return DryRun(
        instances=samples // plan.run.samples,
        samples=samples,
        owed_samples=owed_samples,
        calls=frozenset(calls),
        cached=n_cached,
        model=total.estimate(),
        references=n_references,
        failed_references=failed,
        first=first,
    )


@contextlib.contextmanager
def _cached(job: Job, before: Collection[str]) -> Iterator[Callable[[str], bool]]:
    """Yield a function from a call id to whether its reply will be cached when the run starts."""
    path = replies_path(job.settings)
    if not job.model.backend.cacheable:
        yield lambda _: False
    elif not path.exists():
        yield lambda name: name in before
    else:
        with open_cache(job.settings) as replies:
            yield lambda name: name in before or replies.get(name, wait_s=LOCKED_S) is not None


def _check_references(plan: RunPlan) -> tuple[int, dict[str, str]]:
    """Return how many references the rules can score, and why some fail, by id."""
    count, failed, task = 0, dict[str, str](), plan.task
    answer = task.expected_answer if isinstance(task, Targeted) else task.reference
    for instance in plan.instances:
        reference = answer(instance)
        if reference is None:
            continue
        found = assess(plan.task, instance, Reply(reference, "stop"))
        if found.passed is None and not found.scores:  # no rule applies: only judges decide
            continue
        count += 1
        if not found.passed:
            failed[instance.id] = first_reason(found.scores) or found.problem or found.outcome
    return count, failed
