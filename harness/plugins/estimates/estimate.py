"""A dry run plans a run and estimates its cost, without calling a model or creating the run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any

from harness.calls.database import LOCK_TIMEOUT_S
from harness.calls.prompt_cache import SharedPrefixes
from harness.calls.reply_cache import CacheDamaged, ReplyCache
from harness.config.settings import Settings
from harness.engine.assessment import Assessment, assess, judged_outcomes, reply_outcome
from harness.engine.job import Job
from harness.engine.models import Model
from harness.engine.plan import RunPlan, UnfinishedSample
from harness.engine.replies import replies_path
from harness.engine.turns import instance_at_turn, max_turns, user_role
from harness.ports import Task, overrides_method
from harness.records import (
    Instance,
    Message,
    Origin,
    Question,
    Reply,
    Request,
    Usage,
    first_reason,
    messages_hash,
)

if TYPE_CHECKING:
    from harness.engine.judges import JudgeModel

logger = logging.getLogger("harness")

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


class CallEstimate:
    """The number, tokens and cost of calls to make to a model, which `add` adds up.

    Attributes:
        calls: Their number.
        input_tokens: Tokens read.
        output_tokens: Tokens written.
        saved_usd: Saved by the provider's prompt cache; only the lower bound of `usd` is reduced
            by it.
        cached: The number of further calls, of a judge, whose replies are cached.
        at_most: Whether prompts depend on future answers, so that some may be cached.
    """

    def __init__(self, model: Model | None) -> None:
        self._price = model.usual_price if model else None
        caching = model is not None and model.backend.prompt_caching
        self._prefixes = SharedPrefixes() if caching else None
        self._usd = EstimateRange()
        self.calls = EstimateRange()
        self.input_tokens = EstimateRange()
        self.output_tokens = EstimateRange()
        self.saved_usd = EstimateRange()
        self.cached = 0
        self.at_most = False

    @property
    def usd(self) -> EstimateRange | None:
        """The cost in US dollars, or None if it depends on an unknown price."""
        return None if self._price is None and self.calls.high else self._usd

    def add(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        *,
        certain: bool,
        growth: float = 0,
        answer: int = 1,
        joint: bool = False,
    ) -> None:
        """Add a call, which raises only the upper bounds if it is not ``certain``.

        The prompt ``messages`` may grow by ``growth`` tokens. The reply has ``answer`` to
        ``max_tokens`` tokens. A ``joint`` call may be combined with the previous one.
        """
        characters = _characters(messages)
        fewest = 0.0 if joint else characters / CHARACTERS_PER_TOKEN[0]
        longest_prompt = characters / CHARACTERS_PER_TOKEN[1] + growth
        longest_prompt += PER_CALL + PER_MESSAGE * len(messages)
        longest = _limit(max_tokens)
        self.calls += EstimateRange(certain and not joint, 1)
        self.input_tokens += EstimateRange(fewest * certain, longest_prompt)
        self.output_tokens += EstimateRange(answer * certain, longest)
        if self._price is None:
            return
        cost = self._price.cost
        if max(longest_prompt, longest) < inf:
            high = cost(Usage(round(longest_prompt), round(longest)))
        else:
            high = inf if cost(Usage(10**6, 10**6)) else 0.0
        low = cost(Usage(round(fewest), answer)) if certain else 0.0
        if certain and not joint:
            saved = self._saved(messages)
            self.saved_usd += saved
            low = max(0.0, low - saved.low)
        self._usd += EstimateRange(low, high)

    def _saved(self, messages: Sequence[Message]) -> EstimateRange:
        """Return what the prompt cache saves on a call (US dollars)."""
        if self._prefixes is None or self._price is None:
            return EstimateRange()
        is_new = self._prefixes(messages) is None
        prefix = self._prefixes.add(messages)
        if prefix is None or prefix.cut is None or is_new:
            return EstimateRange()
        place, offset = prefix.cut
        characters = _characters(messages[:place]) + offset
        bounds = []
        for ratio in CHARACTERS_PER_TOKEN:
            n = round(characters / ratio)
            usage = Usage(n, cached_input_tokens=n)
            bounds.append(self._price.cache_savings(usage))
        return EstimateRange(*bounds)

    def add_questions(self, questions: Sequence[Question], *, certain: bool, growth: float) -> None:
        """Add a judge's calls for a future answer, with arguments as in `add`."""
        self.at_most |= bool(questions)
        for question in questions:
            longest = question.decoding.max_tokens
            for _ in range(question.samples):
                self.add(question.messages, longest, certain=certain, growth=growth)


def _limit(max_tokens: int | None) -> float:
    return inf if max_tokens is None else max_tokens


def _characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


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
        user = [] if self.user is None else [self.user]
        return [self.model, *user, *self.judges.values()]

    @property
    def judge_calls(self) -> EstimateRange:
        """The number of the judges' calls to pay for."""
        return sum((judge.calls for judge in self.judges.values()), EstimateRange())

    @property
    def at_most(self) -> bool:
        """Whether the number of calls is an upper bound."""
        return any(part.at_most for part in self.parts)

    @property
    def total_usd(self) -> EstimateRange | None:
        """The cost (US dollars) of the run's models, or None if a price is unknown."""
        total = EstimateRange()
        for part in self.parts:
            if part.usd is None:
                return None
            total += part.usd
        return total

    @property
    def total_saved_usd(self) -> EstimateRange:
        """The US dollars that prompt caches save for the run's models."""
        return sum((part.saved_usd for part in self.parts), EstimateRange())


class JudgeCalls:
    """The calls of a judge about answers, added up in ``total``.

    Args:
        judge: The judge.
        cached: Returns whether a call's id is in the cache.
        run_id: The run's id.
    """

    def __init__(self, judge: JudgeModel, cached: Callable[[str], bool], run_id: str) -> None:
        self.judge = judge
        self.total = CallEstimate(judge.model)
        self._cached = cached
        self._key = judge.model.key(run_id)

    def add(self, requests: Iterable[Request], seen: set[str]) -> None:
        """Add the requests whose ids are not in ``seen``, and extend ``seen``."""
        for request in requests:
            name = self._key(request)
            if name in seen:
                continue
            seen.add(name)
            if self.judge.model.backend.cacheable and self._cached(name):
                self.total.cached += 1
            else:
                self.total.add(request.messages, request.decoding.max_tokens, certain=True)


def assessed_references(
    task: Task[Any], instances: Iterable[Instance[Any]]
) -> Iterator[tuple[str, Assessment]]:
    """Yield the assessment of each reference answer that rules can score, and what it answers.

    This is an instance's id, with the turn if there are several.
    """
    for instance in instances:
        turns = task.turns(instance)
        answers: list[str] = []
        for turn in range(1, turns + 1):
            turn_instance = instance_at_turn(task, instance, answers)
            reference = task.expected_answer(turn_instance)
            answers.append(reference or "")
            if reference is None:
                continue
            assessment = assess(task, turn_instance, Reply(reference, "stop"))
            if assessment.passed is None and not assessment.scores:
                continue  # no rule applies: only judges decide
            yield instance.id if turns == 1 else f"{instance.id}, turn {turn}", assessment


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
            return name in before or reply(name) is not None

        dry_run = count_work(
            plan,
            key,
            cached if job.model.backend.cacheable else lambda name: False,
            job.model,
            references=references,
        )
        judges = [JudgeCalls(judge, cached, run_id) for judge in job.judges]
        judged: frozenset[str] = frozenset()
        if judges:
            judged = _add_judge_calls(job, plan, judges, key, reply)
    totals = {judge.judge.name: judge.total for judge in judges}
    return replace(dry_run, user=_user_calls(job, plan), judges=totals, judged=judged)


def estimate_waves(job: Job) -> EstimateRange | None:
    """Return how often a run waits for calls that are made later, or None if never."""
    later = job.model.deferral is not None
    judged_later = any(judge.model.deferral is not None for judge in job.judges)
    waves = later + judged_later  # in each round
    if not waves:
        return None
    turns = 1
    if overrides_method(job.task, Task.turns):
        turns = max((max_turns(job.task, instance) for instance in job.instances), default=1)
    rounds = job.run.rounds
    most_rounds = max(turns, rounds.max)
    fewest_rounds = turns if rounds.stop_on_pass else most_rounds
    return EstimateRange(waves * fewest_rounds, waves * most_rounds)


def wave_hours(job: Job) -> int:
    """Return the longest time, in hours, that providers state for calls that are made later."""
    models = [job.model, *(judge.model for judge in job.judges)]
    hours = [model.deferral.hours for model in models if model.deferral is not None]
    return max(hours, default=0)


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
    from harness.engine.judging import MissingJudgements  # NumPy takes 0.2 s to import

    longest = _limit(job.run.decoding.max_tokens)
    rounds = job.run.rounds
    outcomes = judged_outcomes(job.task)
    seen = set[str]()
    is_known = job.model.backend.cacheable and job.paraphraser is None
    for instance, unfinished in _by_instance(plan):
        messages = plan.opening(instance).messages
        questions = []  # by turn
        for turn in range(unfinished[0].turns):
            turn_instance = instance_at_turn(job.task, instance, ["…"] * turn)
            questions.append(_questions(job.task, turn_instance, judges))
        for sample in unfinished:
            for number in range(sample.round, max(sample.turns, rounds.max) + 1):
                of_turn = questions[min(number, sample.turns) - 1]
                answer: Reply | None = None
                if number == 1 and is_known:
                    request = plan.request(sample, 1, messages, messages_hash(messages))
                    answer = reply(key(request))
                if answer is not None:
                    if reply_outcome(answer) in outcomes:
                        for judge, _ in of_turn:
                            judge.add(
                                judge.judge.first_requests(instance, answer.text, sample.sample),
                                seen,
                            )
                    continue
                certain = number == sample.round or not rounds.stop_on_pass or sample.turns > 1
                growth = longest * min(number, sample.turns)
                for judge, prompts in of_turn:
                    judge.total.add_questions(prompts, certain=certain, growth=growth)
    by_name = {judge.judge.name: judge for judge in judges}
    late = MissingJudgements(job.folder.attempts, list(by_name), job.model.reasoning)
    for attempt in late.attempts(job.task, job.data):
        for name, redraw in attempt.redraws.items():
            if (late_judge := by_name.get(name)) is not None:
                model = late_judge.judge
                requests = model.requests(attempt.instance, attempt.answer, redraw=redraw)
                late_judge.add(requests, seen)
    return frozenset(seen)


def _questions(
    task: Task[Any], instance: Instance[Any], judges: Sequence[JudgeCalls]
) -> list[tuple[JudgeCalls, Sequence[Question]]]:
    """Return what judges ask about an answer to an instance, as of a turn."""
    reference = task.reference(instance) or "…"
    scoring = [judge for judge in judges if judge.judge.can_score(instance)]
    return [(judge, judge.judge.judge.questions(instance, reference)) for judge in scoring]


def _by_instance(plan: RunPlan) -> Iterator[tuple[Instance[Any], list[UnfinishedSample]]]:
    """Yield each instance with unfinished samples, and these samples."""
    for _, samples in groupby(plan.unfinished(), key=lambda sample: sample.instance.id):
        unfinished = list(samples)
        yield unfinished[0].instance, unfinished


def _add_later_calls(
    total: CallEstimate, plan: RunPlan, sample: UnfinishedSample, messages: Sequence[Message]
) -> None:
    """Add the calls of a sample's feedback rounds, or of a conversation's turns."""
    rounds = plan.run.rounds
    max_tokens = plan.run.decoding.max_tokens
    longest = _limit(max_tokens)
    for number in range(max(2, sample.round), rounds.max + 1):
        certain = number == sample.round or not rounds.stop_on_pass
        growth = (number - 1) * (FEEDBACK_TOKENS + longest)
        total.add(messages, max_tokens, certain=certain, growth=growth)
    user = plan.run.user if user_role(plan.task, sample.instance) else None
    per_turn = longest + (user.max_tokens if user else 0)
    for number in range(max(2, sample.round), sample.turns + 1):
        turn = instance_at_turn(plan.task, sample.instance, [""] * (number - 1))
        certain = user is None or number == sample.round
        growth = (number - 1) * per_turn
        total.add(plan.task.messages(turn, ()), max_tokens, certain=certain, growth=growth)


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
    samples, owed_samples = plan.count_samples()
    calls: set[str] = set()
    n_cached = 0
    first: tuple[Message, ...] | None = None
    has_shots = False
    total = CallEstimate(model)
    per_call = model.limits.samples_per_call if model else 1
    for instance, unfinished in _by_instance(plan):
        messages = plan.opening(instance).messages
        drawn = 0  # samples of the instance that the calls so far draw
        for sample in unfinished:
            if first is None or (plan.shots and not has_shots):
                # Prefer a prompt with shots to show, since some instances may lack them.
                has_shots = messages != plan.task.messages(instance, ())
                if first is None or has_shots:
                    first = messages
            if sample.round == 1:
                request = plan.request(sample, 1, messages, messages_hash(messages))
                name = key(request)
                if name not in calls and cached(name):
                    n_cached += 1
                elif name not in calls:
                    reference = plan.task.reference(instance) or ""
                    tokens = round(len(reference) / CHARACTERS_PER_TOKEN[0])
                    max_tokens = request.decoding.max_tokens
                    total.add(
                        request.sent_messages,
                        max_tokens,
                        certain=True,
                        answer=max(1, min(tokens, max_tokens or tokens)),
                        joint=drawn % per_call > 0,
                    )
                    drawn += 1
                calls.add(name)
            _add_later_calls(total, plan, sample, messages)
    n_references = 0
    failed: dict[str, str] = {}
    if references:
        for name, assessment in assessed_references(plan.task, plan.instances):
            n_references += 1
            if not assessment.passed:
                reason = first_reason(assessment.scores)
                failed[name] = reason or assessment.problem or assessment.outcome
    return DryRun(
        instances=samples // plan.run.samples,
        samples=samples,
        owed_samples=owed_samples,
        calls=frozenset(calls),
        cached=n_cached,
        model=total,
        references=n_references,
        failed_references=failed,
        first=first,
    )


def _user_calls(job: Job, plan: RunPlan) -> CallEstimate | None:
    """Return bounds on the calls of a played user, or None without one."""
    user = job.user
    if user is None:
        return None
    total = CallEstimate(user.model)
    total.at_most = True
    max_tokens = user.section.max_tokens
    longest = _limit(job.run.decoding.max_tokens)
    for instance, unfinished in _by_instance(plan):
        role = user_role(plan.task, instance)
        if role is None:
            continue
        opening = plan.opening(instance).messages
        request = user.request(role, opening, Origin(instance.id, 0, 1))
        for sample in unfinished:
            for n in range(sample.round, sample.turns):
                growth = n * longest + (n - 1) * max_tokens
                certain = n == sample.round
                total.add(request.messages, max_tokens, certain=certain, growth=growth)
    return total


@contextlib.contextmanager
def cached_replies(
    models: Sequence[Model], settings: Settings
) -> Iterator[Callable[[str], Reply | None]]:
    """Yield a function that returns the cached reply of a call's id, or None."""
    is_cached = any(model.backend.cacheable for model in models)
    if not is_cached or not replies_path(settings).exists():
        yield lambda _: None
    else:
        # Looking up each call in a team's database would take minutes.
        try:
            replies = ReplyCache(replies_path(settings), restore=None)
        except CacheDamaged as damaged:
            logger.warning(f"{damaged} The estimate counts no cached reply.")
            yield lambda _: None
            return
        with replies:
            yield partial(replies.get, wait_s=LOCK_TIMEOUT_S)
