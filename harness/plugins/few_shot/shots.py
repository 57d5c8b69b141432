"""Few-shot prompts: the worked examples (shots) that precede an instance's own prompt.

A candidate is skipped if it has the same prompt, if its answer would also be correct for the
instance (as far as the task can tell), or if its answer is wrong. As a safeguard, building a prompt
fails if one of its shots shows the instance's answer.
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import cycle, dropwhile, islice
from typing import Any, NamedTuple

import msgspec

from harness.config.run_file import RunFile
from harness.config.sections import ShotsSection
from harness.config.settings import Settings
from harness.engine.assessment import assess
from harness.engine.plan import FewShotPrompts
from harness.engine.resolving import build_task, find_referenced_run
from harness.errors import ConfigError, ShotLeaks, suggest_name
from harness.ports import Task
from harness.records import Attempt, Instance, Message, Reply, Score, messages_hash
from harness.store.index import AttemptIndex
from harness.store.lost_lines import warn_of_missing
from harness.store.run_folder import RunFolder

Messages = tuple[Message, ...]
# An instance's groups, one for each label in ``within``; None for a label that it lacks.
LabelValues = tuple[str | None, ...]


class Mistake(NamedTuple):
    """A failed score or outcome, and its reason without variable parts."""

    score: str
    reason: str  # for a schema's score, a violated keyword (from ``details.keywords``)


_QUOTED = re.compile(
    r"""(?<!\w)'.*?(?:'(?!\w)|\Z)|".*?(?:"|\Z)|“.*?(?:”|\Z)""", re.DOTALL
)  # an apostrophe within a word is no quote; a reason that was cut may leave a quote open
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LIST = re.compile(r"('…'|#)(?:, \1)+")


def masked(reason: str) -> str:
    """Return a reason without its variable parts, so that similar reasons become equal.

    >>> masked("98 of 100 words; lacks 'snow', 'don\\'t'")
    "# of # words; lacks '…'"
    """
    return _LIST.sub(r"\1", _NUMBER.sub("#", _QUOTED.sub("'…'", reason)))


def mistakes_of(attempt: Attempt) -> list[Mistake]:
    """Return the mistakes in an attempt: none if it passed or has no verdict."""
    if attempt.passed is not False:
        return []
    mistakes = []
    for name, score in attempt.scores.items():
        if score.passed is False:
            reasons = _keywords(score) or [masked(score.reason)]
            mistakes += [Mistake(name, reason) for reason in reasons]
    return mistakes or [Mistake(attempt.outcome, masked(attempt.error or ""))]


def _keywords(score: Score) -> list[str]:
    counts = score.details.get("keywords")
    if not isinstance(counts, Mapping):
        return []
    return [word for word, count in counts.items() if isinstance(count, int) and count > 0]


class Mistakes:
    """The mistakes in a run's first answers, used to choose helpful shots."""

    def __init__(self, folder: RunFolder) -> None:
        self._of: dict[str, Counter[Mistake]] = {}
        index = AttemptIndex(folder.attempts, judges=False)
        warn_of_missing(folder, index.attempts)
        for attempt in index.read(Attempt):
            if attempt.round == 1 and (mistakes := mistakes_of(attempt)):
                self._of.setdefault(attempt.instance, Counter()).update(mistakes)

    def order(self, ids: Sequence[str]) -> list[str]:
        """Return instance ids, starting with those that show the most frequent mistakes.

        The kinds of mistake take turns. Each adds the remaining instance that shows it most often.
        Instances without a mistake come last.
        """
        instances: dict[Mistake, list[tuple[int, str]]] = {}  # by mistake, with minus its count
        negative_totals = Counter[Mistake]()
        for name in ids:
            for mistake, count in self._of.get(name, {}).items():
                instances.setdefault(mistake, []).append((-count, name))
                negative_totals[mistake] -= count
        frequent = sorted(instances, key=lambda mistake: (negative_totals[mistake], mistake))
        waiting = [iter(sorted(instances[mistake])) for mistake in frequent]
        chosen: dict[str, None] = {}
        while waiting:
            for with_mistake in list(waiting):
                new = next((name for _, name in with_mistake if name not in chosen), None)
                if new is None:
                    waiting.remove(with_mistake)
                else:
                    chosen[new] = None
        return list(dict.fromkeys([*chosen, *ids]))


class ShotCandidate(NamedTuple):
    """An instance that can be a shot, with its reference answer and its prompt's hash."""

    instance: Instance[Any]
    answer: str
    prompt: str


class Shots(FewShotPrompts):
    """The shots of each instance, chosen deterministically."""

    def __init__(
        self,
        task: Task[Any],
        section: ShotsSection,
        source: Task[Any],  # the task whose instances with reference answers can be shots
        mistakes: Mistakes | None = None,  # for ``select: errors``
    ) -> None:
        self.task = task
        self.section = section
        self.source = source
        self.lacking = 0  # instances with too few shots, once `check` has run
        self._mistakes = mistakes
        self._chosen: dict[str, tuple[int, ...]] = {}
        self._candidates: list[ShotCandidate] = []
        self._numbers: dict[str, int] = {}
        labels: set[str] = set()
        for instance in source.instances():
            answer = source.reference(instance)
            if answer is not None:
                self._numbers[instance.id] = len(self._candidates)
                prompt = messages_hash(source.messages(instance, ()))
                self._candidates.append(ShotCandidate(instance, answer, prompt))
                labels.update(instance.groups)
        self._passes = cache(self._passing)
        for name in section.ids:
            if name not in self._numbers:
                problem = f"task.shots.ids: no instance {name!r} has a reference answer to show."
                raise ConfigError(problem, suggest_name(name, self._numbers))
        if self._candidates:
            _check_labels("within", section.within, labels)
            _check_labels("across", [section.across] if section.across else [], labels)

    def _passing(self, number: int) -> bool:
        candidate = self._candidates[number]
        assessment = assess(self.source, candidate.instance, Reply(candidate.answer, "stop"))
        return assessment.passed is not False

    def check(self, instances: Iterable[Instance[Any]]) -> None:
        """Build the prompts of all instances, and check their shots.

        Raises:
            ConfigError: If an instance has too few shots, unless ``allow_fewer`` is set.
            ShotLeaks: If a shot shows an instance's answer.
        """
        n = self.section.n
        lacking = []
        for instance in instances:
            if (count := len(self.of(instance))) < n:
                lacking.append((instance.id, count))
            if not lacking or self.section.allow_fewer:
                self.messages(instance)
        self.lacking = len(lacking)
        if lacking and not self.section.allow_fewer:
            if not self._candidates:
                problem = "task.shots: no instance has a reference answer to show as an example."
                raise ConfigError(problem, "Remove task.shots, or give the rows reference answers.")
            first, count = lacking[0]
            raise ConfigError(
                f"task.shots: only {count} of {n} shots are suitable for the instance {first!r} "
                f"(instances with too few: {len(lacking):,}). The others leak its answer or fail.",
                "Ask for fewer shots, select them from more instances, or set allow_fewer: true.",
            )

    def messages(self, instance: Instance[Any]) -> Messages:
        """Return an instance's messages of round 1, including its shots.

        Raises:
            ShotLeaks: If a shot shows the instance's answer.
        """
        shots = self.of(instance)
        form = self.section.form
        question = self.task.messages(instance, ())
        examples = [self._example(instance, question, shot) for shot in shots]
        if form == "task":
            task_form = self.task.messages(instance, shots)
            if task_form == question and shots:
                raise ConfigError("The task has no few-shot form.", "Set task.shots.form to turns.")
            return task_form
        system, question = _split_system(question)
        pairs = [(_without_system(prompt, system), answer) for prompt, answer in examples]
        if form == "message":
            return (*system, Message("user", _one_text(pairs, question)))
        turns: list[Message] = []
        for prompt, answer in pairs:
            turns += [*prompt, Message("assistant", answer)]
        return (*system, *turns, *question)

    def of(self, instance: Instance[Any]) -> Sequence[Instance[Any]]:
        """Return an instance's shots: fewer than requested if too few candidates are suitable."""
        if instance.id not in self._chosen:
            self._chosen[instance.id] = self._choose(instance)
        return [self._candidates[number].instance for number in self._chosen[instance.id]]

    def fingerprint(self) -> str:
        """Return a hash of everything that the selection depends on, except the run file."""
        digest = hashlib.sha256()
        for instance, answer, prompt in self._candidates:
            parts: list[Any] = [instance.id, answer, prompt, self._shared_by(instance)]
            if self.section.across is not None:
                parts.append(instance.groups.get(self.section.across))
            digest.update(msgspec.json.encode(parts))
        if self._mistakes is not None:
            for order in self._orders.values():
                digest.update(msgspec.json.encode(self._names(order)))
        return digest.hexdigest()

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self._candidates[number].instance.id for number in numbers]

    def _example(
        self, instance: Instance[Any], instance_prompt: Messages, shot: Instance[Any]
    ) -> tuple[Messages, str]:
        """Return a shot's prompt and answer. Raise ShotLeaks if it shows the instance's answer."""
        source = self.source
        prompt = source.messages(shot, ())
        answer = source.reference(shot)
        same = shot.id == instance.id or prompt == instance_prompt
        if same or answer is None or self.task.leaks(instance, shot):
            problem = f"The shot {shot.id!r} reveals the answer to {instance.id!r}, or has none."
            raise ShotLeaks(problem, "This is a bug in the selection of shots: please report it.")
        return prompt, answer

    def _choose(self, instance: Instance[Any]) -> tuple[int, ...]:
        section = self.section
        prompt = messages_hash(self.task.messages(instance, ()))
        _check_labels("within", section.within, instance.groups)
        groups = self._groups.get(self._shared_by(instance), {})
        turns = []
        for group, order in islice(groups.items(), section.n):
            numbers: Iterable[int] = order
            if section.select == "random":
                draw = self._random(instance, "select" if group is None else f"select/{group}")
                numbers = _shuffled(order, draw)
            turns.append(self._suitable(instance, prompt, numbers))
        chosen: list[int] = []
        # A group that has run out is not replaced by another, which would unbalance the shots.
        for turn in islice(cycle(turns), section.n):
            chosen += islice(turn, 1)
        if section.order == "reversed":
            chosen.reverse()
        elif section.order == "random":
            self._random(instance, "order").shuffle(chosen)
        return tuple(chosen)

    def _suitable(
        self, instance: Instance[Any], prompt: str, candidates: Iterable[int]
    ) -> Iterator[int]:
        for number in candidates:
            candidate = self._candidates[number]
            if candidate.instance.id == instance.id or candidate.prompt == prompt:
                continue
            if self.task.leaks(instance, candidate.instance):
                continue
            if self._passes(number):
                yield number

    @cached_property
    def _groups(self) -> Mapping[LabelValues, Mapping[str | None, Sequence[int]]]:
        """The candidates' numbers by the values of ``within`` and then of ``across``."""
        across = self.section.across
        groups_by_labels: dict[LabelValues, Mapping[str | None, Sequence[int]]] = {}
        for shared, order in self._orders.items():
            if across is None:
                groups_by_labels[shared] = {None: order}
                continue
            groups: dict[str, list[int]] = {}
            for number in order:
                group = self._candidates[number].instance.groups.get(across)
                if group is not None:
                    groups.setdefault(group, []).append(number)
            groups_by_labels[shared] = dict(sorted(groups.items()))
        return groups_by_labels

    @cached_property
    def _orders(self) -> dict[LabelValues, list[int]]:
        """The candidates' numbers in selection order, by the values of the ``within`` labels."""
        numbers = [self._numbers[name] for name in self.section.ids]
        orders: dict[LabelValues, list[int]] = {}
        for number in numbers or range(len(self._candidates)):
            shared = self._shared_by(self._candidates[number].instance)
            orders.setdefault(shared, []).append(number)
        if self._mistakes is not None:
            for shared, order in orders.items():
                names = self._mistakes.order(self._names(order))
                orders[shared] = [self._numbers[name] for name in names]
        return orders

    def _shared_by(self, instance: Instance[Any]) -> LabelValues:
        return tuple(instance.groups.get(label) for label in self.section.within)

    def _random(self, instance: Instance[Any], what: str) -> random.Random:
        return random.Random(f"{self.section.seed}/{what}/{instance.id}")


def _check_labels(key: str, labels: Iterable[str], existing: Collection[str]) -> None:
    for label in labels:
        if label not in existing:
            remedy = suggest_name(label, existing) or "Remove it: they have no labels at all."
            raise ConfigError(f"task.shots.{key}: the instances have no label {label!r}.", remedy)


def _shuffled(order: Sequence[int], rng: random.Random) -> Iterator[int]:
    """Yield the numbers in random order, drawn lazily: usually only the first are used."""
    moved: dict[int, int] = {}
    for place in range(len(order)):
        drawn = rng.randrange(place, len(order))
        yield order[moved.get(drawn, drawn)]
        moved[drawn] = moved.get(place, place)


def _split_system(messages: Messages) -> tuple[Messages, Messages]:
    """Return the system's messages at the beginning, and the rest."""
    others = tuple(dropwhile(lambda message: message.role == "system", messages))
    return messages[: len(messages) - len(others)], others


def _without_system(prompt: Messages, system: Messages) -> Messages:
    shot_system, turns = _split_system(prompt)
    if shot_system and shot_system != system:
        problem = "task.shots: a shot's system message differs from the instance's."
        raise ConfigError(problem, "Set within to a label, so that the shots share it.")
    return turns


def _one_text(shots: Sequence[tuple[Messages, str]], question: Messages) -> str:
    prompts = [*(prompt for prompt, _ in shots), question]
    if any(len(prompt) != 1 or prompt[0].role != "user" for prompt in prompts):
        problem = "task.shots: form 'message' cannot hold prompts of several turns."
        raise ConfigError(problem, "Set task.shots.form to turns.")
    pairs = [f"{prompt[0].content}\n{answer}\n\n" for prompt, answer in shots]
    return "".join((*pairs, question[0].content))


def build_shots(
    run: RunFile,
    task: Task[Any],
    settings: Settings,
    folder: RunFolder,
    siblings: Collection[str] = (),
) -> Shots:
    """Return the shots of a few-shot run. ``siblings`` are the names of all runs of its file."""
    section = run.task.shots
    if run.polish is not None and section.form != "turns":
        raise ConfigError(
            f"polish would rewrite the shots too if task.shots.form is {section.form!r}.",
            "Set task.shots.form to turns, or remove polish from the run file.",
        )
    source = task
    if section.source:
        source = build_task(run, settings, section.source, with_judges=False)
    mistakes = None
    if section.run is not None:
        simulated = run.model.backend == "simulated"
        runs = settings.runs_dir
        key = "task.shots.run"
        earlier = find_referenced_run(
            runs, section.run, task.fingerprint(), key, simulated=simulated
        )
        is_this_run = earlier.path.resolve() == folder.path.resolve()
        if is_this_run or section.run in siblings:
            which = "this run itself" if is_this_run else "a variant of the same file"
            problem = f"{key}: {section.run!r} is {which}, whose errors may still change."
            raise ConfigError(problem, "Name an earlier run of another file.")
        if not earlier.has_attempts() or earlier.read_config().task.name != run.task.name:
            problem = f"{key}: the run {section.run!r} has no attempts yet, or another task."
            raise ConfigError(problem, "Run it first, or name a run of this task.")
        mistakes = Mistakes(earlier)
    return Shots(task, section, source, mistakes)
