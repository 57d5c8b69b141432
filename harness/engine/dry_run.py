"""A dry run plans a run and estimates its cost, without calling a model or creating the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from harness.analysis.rescoring import first_reason
from harness.calls.database import LOCKED_S
from harness.calls.prompt_cache import SharedBeginnings
from harness.engine.assessment import judged_outcomes, reply_outcome
from harness.engine.job import Job
from harness.engine.plan import RunPlan
from harness.engine.session import open_cache, replies_path
from harness.engine.turns import as_of, assessed_references, most_turns, user_role
from harness.ports import Task, overrides
from harness.records import (
    Instance,
    Message,
    Origin,
    Question,
    Reply,
    Request,
    Usage,
    messages_hash,
)

if TYPE_CHECKING:
    from harness.config.settings import Settings
    from harness.engine.judges import JudgeModel
    from harness.engine.models import Model


@dataclass(frozen=True, slots=True)
class DryRun:
    """A run's plan and estimated cost.

    The lower bounds assume that every first answer passes. The upper bounds assume that every
    feedback round is needed and that no feedback call is shared or cached. Both assume that all
    turns of scripted conversations are asked.
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
    judged: frozenset[str] = frozenset()  # ids of the judges' calls that are known
    user: CallEstimate | None = None  # the calls of the model that plays the user

    @property
    def parts(self) -> list[CallEstimate]:
        """The estimates of the run's model, the played user (if any) and the judges."""
        return [self.model, *([] if self.user is None else [self.user]), *self.judges.values()]

    @property
    def judge_calls(self) -> EstimateRange:
        """The number of the judges' calls to pay for."""
        return sum((one.calls for one in self.judges.values()), EstimateRange())

    @property
    def at_most(self) -> bool:
        """Whether the number of calls is an upper bound."""
        return any(one.at_most for one in self.parts)

    @property
    def total_usd(self) -> EstimateRange | None:
        """The cost (US dollars) of the run's models, or None if a price is unknown."""
        parts = [one.usd for one in self.parts]
        known = [part for part in parts if part is not None]
        return sum(known, EstimateRange()) if len(known) == len(parts) else None

    @property
    def total_saved_usd(self) -> EstimateRange:
        """The US dollars that prompt caches save for the run's models."""
        return sum((one.saved_usd for one in self.parts), EstimateRange())


@dataclass(frozen=True, slots=True)
class JudgeCalls:
    """Running totals for a judge's calls."""

    judge: JudgeModel
    cached: Callable[[str], bool]
    total: CallBounds
    key: Callable[[Request], str]

    @classmethod
    def of(cls, judge: JudgeModel, cached: Callable[[str], bool], run_id: str) -> Self:
        """Return empty totals. ``cached`` says whether a call's id is in the cache."""
        key = judge.model.key(run_id)
        return cls(judge, cached, CallBounds(judge.model), key)

    def add(self, requests: Iterable[Request], seen: set[str]) -> None:
        """Add the requests whose ids are not in ``seen``, and extend ``seen``."""
        for request in requests:
            name = self.key(request)
            if name in seen:
                continue
            seen.add(name)
            if self.judge.model.backend.cacheable and self.cached(name):
                self.total.cached += 1
            else:
                self.total.add(request.messages, request.decoding.max_tokens, certain=True)


def estimate_run(job: Job, before: Collection[str] = (), *, references: bool = True) -> DryRun:
    """Estimate a run's calls and cost.

    Calls whose ids are in ``before`` count as cached. ``references`` says whether to score the
    reference answers too, which takes time.
    """
    plan = job.plan()
    run_id = job.folder.run_id()
    key = job.model.key(run_id)
    models = [job.model, *(judge.model for judge in job.judges)]
    with cached_replies(models, job.settings) as reply:

        def cached(name: str) -> bool:
            return job.model.backend.cacheable and (name in before or reply(name) is not None)

        found = count_work(plan, key, cached, job.model, references=references)
        found = replace(found, user=_user_calls(job, plan))
        if not job.judges:
            return found
        judges = [
            JudgeCalls.of(one, lambda name: name in before or reply(name) is not None, run_id)
            for one in job.judges
        ]
        judged = _add_judge_calls(job, plan, judges, key, reply)
    totals = {one.judge.name: one.total.estimate() for one in judges}
    return replace(found, judges=totals, judged=judged)


def estimate_waves(job: Job) -> EstimateRange | None:
    """Return how often a run waits for calls that are made later, or None if never."""
    later = job.model.later is not None
    judged_later = any(judge.model.later is not None for judge in job.judges)
    if not (later or judged_later):
        return None
    each, rounds, turns = later + judged_later, job.run.rounds, 1
    if overrides(job.task, Task.turns):
        turns = max((most_turns(job.task, one) for one in job.instances), default=1)
    fewest = turns if rounds.stop_on_pass else max(turns, rounds.max)
    return EstimateRange(each * fewest, each * max(turns, rounds.max))


def wave_hours(job: Job) -> int:
    """Return the longest time, in hours, that providers state for calls that are made later."""
    models = [job.model, *(judge.model for judge in job.judges)]
    return max((model.later.hours for model in models if model.later is not None), default=0)


def _add_judge_calls(
    job: Job,
    plan: RunPlan,
    judges: Sequence[JudgeCalls],
    key: Callable[[Request], str],
    reply: Callable[[str], Reply | None],
) -> frozenset[str]:
    """Add the judges' calls to their totals, and return the ids of those that are known.

    Known are calls about recorded answers and about first answers in the cache. The others are
    estimated from reference answers.
    """
    from harness.engine.judging import OwedJudgements

    longest = inf if job.run.decoding.max_tokens is None else job.run.decoding.max_tokens
    rounds, outcomes, seen = job.run.rounds, judged_outcomes(job.task), set[str]()
    known = job.model.backend.cacheable and job.paraphraser is None
    asked: Sequence[Sequence[tuple[JudgeCalls, Sequence[Question]]]] = ()  # by turn
    last: Instance[Any] | None = None
    for owed in plan.owed():
        if owed.instance is not last:  # the samples of an instance follow each other
            last = owed.instance
            turns = [as_of(job.task, last, ["…"] * turn) for turn in range(owed.turns)]
            asked = [
                [
                    (one, one.judge.judge.questions(turn, job.task.reference(turn) or "…"))
                    for one in judges
                    if one.judge.scores(turn)
                ]
                for turn in turns
            ]
            messages = plan.opening(last).messages
        for number in range(owed.round, max(owed.turns, rounds.max) + 1):
            of_turn = asked[min(number, owed.turns) - 1]
            if number == 1 and known:
                request = plan.request(owed, 1, messages, messages_hash(messages))
                if (answer := reply(key(request))) is not None:
                    if reply_outcome(answer) in outcomes:
                        for one, _ in of_turn:
                            one.add(one.judge.about(last, answer.text, owed.sample), seen)
                    continue
            certain = number == owed.round or not rounds.stop_on_pass or owed.turns > 1
            further = longest * min(number, owed.turns)
            for one, questions in of_turn:
                one.total.add_questions(questions, certain=certain, further=further)
    by_name = {one.judge.name: one for one in judges}
    late = OwedJudgements(job.folder.attempts, list(by_name), job.model.reasoning)
    for work in late.work(job.task, job.data):
        for name, redraw in work.judges.items():
            if (calls := by_name.get(name)) is not None:
                calls.add(calls.judge.requests(work.instance, work.answer, redraw=redraw), seen)
    return frozenset(seen)


def count_work(
    plan: RunPlan,
    key: Callable[[Request], str],
    cached: Callable[[str], bool],
    model: Model | None = None,
    *,
    references: bool = True,
) -> DryRun:
    """Count a plan's unfinished work, and estimate its cost, which is unknown without ``model``.

    ``key`` returns the id of a request's call, and ``cached`` whether the id is in the cache.
    ``references`` says whether to score the reference answers too.
    """
    samples, owed_samples = plan.count()
    calls: set[str] = set()
    n_cached, first, with_shots = 0, None, False
    total, rounds, longest = CallBounds(model), plan.run.rounds, plan.run.decoding.max_tokens
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
        for number in range(max(2, owed.round), owed.turns + 1):
            said = plan.task.messages(as_of(plan.task, owed.instance, [""] * (number - 1)), ())
            played = plan.run.user if user_role(plan.task, owed.instance) else None
            each = (inf if longest is None else longest) + (played.max_tokens if played else 0)
            certain = played is None or number == owed.round
            total.add(said, longest, certain=certain, further=(number - 1) * each)
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


def _user_calls(job: Job, plan: RunPlan) -> CallEstimate | None:
    """Return bounds on the calls of a played user, or None without one."""
    if (user := job.user) is None:
        return None
    total, own = CallBounds(user.model), user.section.max_tokens
    total.at_most = True
    answer = inf if job.run.decoding.max_tokens is None else job.run.decoding.max_tokens
    for owed in plan.owed():
        if (role := user_role(plan.task, owed.instance)) is not None:
            origin, opening = Origin(owed.instance.id, 0, 1), plan.opening(owed.instance).messages
            sent = user.request(role, opening, origin).messages
            for n in range(owed.round, owed.turns):
                further, certain = n * answer + (n - 1) * own, n == owed.round
                total.add(sent, own, certain=certain, further=further)
    return total.estimate()


@contextlib.contextmanager
def cached_replies(
    models: Sequence[Model], settings: Settings
) -> Iterator[Callable[[str], Reply | None]]:
    """Yield a function that returns the cached reply of a call's id, or None."""
    if not (replies_path(settings).exists() and any(one.backend.cacheable for one in models)):
        yield lambda _: None
    else:
        # Looking up each call in a team's database would take minutes.
        here = settings.model_copy(update={"cache_url": None})
        with open_cache(here) as replies:
            yield partial(replies.get, wait_s=LOCKED_S)


def _check_references(plan: RunPlan) -> tuple[int, dict[str, str]]:
    """Return how many references the rules can score, and why some fail, by id."""
    count, failed = 0, dict[str, str]()
    for name, found in assessed_references(plan.task, plan.instances):
        count += 1
        if not found.passed:
            failed[name] = first_reason(found.scores) or found.problem or found.outcome
    return count, failed


CHARACTERS_PER_TOKEN = (6.0, 2.5)  # the usual range, from plain English to code
# Tokens of the chat template, as OpenAI counts them. Some providers count none.
PER_CALL, PER_MESSAGE = 3, 4
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
    cached: int = 0  # further calls, of a judge, whose replies are cached
    at_most: bool = False  # whether prompts depend on future answers, so that some may be cached


class CallBounds:
    """Running totals for a model's calls."""

    def __init__(self, model: Model | None) -> None:
        price = model.usual_price if model else None
        self._price = price.cost if price else None
        backend = model.backend if model else None
        caching = backend is not None and backend.prompt_caching
        self._beginnings = SharedBeginnings() if caching else None
        self.calls = self.read = self.written = self.usd = self.saved = EstimateRange()
        self.cached, self.at_most = 0, False

    def estimate(self) -> CallEstimate:
        """Return the totals as an estimate. The cost is None if it depends on an unknown price."""
        usd = self.usd if self._price or not self.calls.high else None
        return CallEstimate(
            self.calls, self.read, self.written, usd, self.saved, self.cached, self.at_most
        )

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
        """Add a call, which raises only the upper bounds if it is not ``certain``.

        The prompt ``messages`` may grow by ``before`` rounds and ``further`` tokens. The reply has
        ``answer`` to ``max_tokens`` tokens. A ``joint`` call may be combined with the previous one.
        """
        characters = sum(len(message.content) for message in messages)
        fewest, most = (characters / each for each in CHARACTERS_PER_TOKEN)
        longest = inf if max_tokens is None else max_tokens
        most += further + PER_CALL + PER_MESSAGE * len(messages)
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
        """Return what the prompt cache saves on a call (US dollars)."""
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
        self, questions: Sequence[Question], *, certain: bool, further: float
    ) -> None:
        """Add a judge's calls for a future answer, with arguments as in `add`."""
        self.at_most |= bool(questions)
        for asked in questions:
            longest = asked.decoding.max_tokens
            for _ in range(asked.samples):
                self.add(asked.messages, longest, certain=certain, further=further)
