"""Few-shot prompts: an instance's round-1 messages with its shots before it.

However shots were chosen, one that shows the instance's answer is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.errors import ConfigError, ShotLeaks
from harness.ports import LeakAware, Task
from harness.records import Instance, Message
from harness.run.models import build_task
from harness.run.other_runs import other_run
from harness.run.shot_selection import Mistakes, ShotPool, ShotSelection
from harness.store.run_folder import RunFolder

Messages = tuple[Message, ...]


class Shots:
    """The shots of a run, written into its prompts in the form that the run file names."""

    def __init__(self, selection: ShotSelection) -> None:
        self._task = selection.task
        self._selection = selection

    def messages(self, instance: Instance[Any]) -> Messages:
        """Return the round-1 messages of an instance; `ShotLeaks` if a shot shows its answer."""
        shots = self._selection.of(instance)
        asked = self._task.messages(instance, ())
        parts = [self._shown(instance, asked, shot) for shot in shots]
        form = self._selection.section.form
        if form == "task":
            return self._task.messages(instance, shots)
        system, asked = _split_system(asked)
        pairs = [(_without_system(prompt, system), answer) for prompt, answer in parts]
        if form == "message":
            return (*system, Message("user", _one_text(pairs, asked)))
        turns = [(*prompt, Message("assistant", answer)) for prompt, answer in pairs]
        return (*system, *chain.from_iterable(turns), *asked)

    def check(self, instances: Iterable[Instance[Any]]) -> None:
        """Choose and form everything once, before any call; `ConfigError` if that is impossible."""
        self._selection.check(instances)
        for instance in instances:
            self.messages(instance)

    @property
    def lacking(self) -> int:
        """Return how many instances get fewer shots than requested, once `check` was called."""
        return self._selection.lacking

    def fingerprint(self) -> Mapping[str, str]:
        """Return what the shots depend on, for the manifest."""
        return {"shots_sha256": self._selection.fingerprint()}

    def _shown(
        self, instance: Instance[Any], asked: Messages, shot: Instance[Any]
    ) -> tuple[Messages, str]:
        """Return a shot's prompt and answer, unless the shot leaks the instance's answer."""
        source = self._selection.pool.task
        prompt, answer = source.messages(shot, ()), source.reference(shot)
        leaks = isinstance(self._task, LeakAware) and self._task.leaks(instance, shot)
        if leaks or shot.id == instance.id or prompt == asked or answer is None:
            raise ShotLeaks(
                f"The shot {shot.id!r} gives the answer to {instance.id!r} away, or has none.",
                "This is a bug in the selection of shots: please report it.",
            )
        return prompt, answer


def _split_system(messages: Messages) -> tuple[Messages, Messages]:
    """Split off the system messages at the beginning."""
    first = next((n for n, found in enumerate(messages) if found.role != "system"), len(messages))
    return messages[:first], messages[first:]


def _without_system(prompt: Messages, system: Messages) -> Messages:
    own, turns = _split_system(prompt)
    if own and own != system:
        raise ConfigError(
            "task.shots: a shot's system message differs from the instance's, which is the one "
            "that is sent.",
            "Choose shots that share it by a label in within.",
        )
    return turns


def _one_text(shots: Sequence[tuple[Messages, str]], asked: Messages) -> str:
    """Join each prompt with its answer on the next line, then a blank line, and the open one."""
    prompts = [*(prompt for prompt, _ in shots), asked]
    if any(len(prompt) != 1 or prompt[0].role != "user" for prompt in prompts):
        raise ConfigError(
            "task.shots: form 'message' cannot hold the task's prompts, which have several turns.",
            "Set task.shots.form to turns.",
        )
    pairs = [f"{prompt[0].content}\n{answer}\n\n" for prompt, answer in shots]
    return "".join((*pairs, asked[0].content))


def build_shots(
    run: RunFile,
    task: Task[Any],
    settings: Settings,
    folder: RunFolder,
    siblings: Collection[str] = (),
) -> Shots:
    """Build the shots of a few-shot run.

    Its errors cannot be those of the run itself (``folder``), nor of its ``siblings``, the runs of
    the same file, which may grow before this one begins.
    """
    section = run.task.shots
    if run.polish is not None and section.form != "turns":
        raise ConfigError(
            f"polish would rewrite the shots too if task.shots.form is {section.form!r}.",
            "Set task.shots.form to turns, or remove polish from the run file.",
        )
    source = task
    if section.source:
        source = build_task(run, settings, section.source, judged=False)
    mistakes = None
    if section.run is not None:
        simulated = run.model.backend == "simulated"
        runs, key = settings.runs_dir, "task.shots.run"
        earlier = other_run(runs, section.run, task, key, simulated=simulated)
        own = earlier.path.resolve() == folder.path.resolve()
        if own or section.run in siblings:
            which = "this run itself" if own else "a variant of the same file"
            raise ConfigError(
                f"{key}: {section.run!r} is {which}, whose errors may change before it begins.",
                "Name a run of another file, made before.",
            )
        if not earlier.begun() or earlier.read_config().task.name != run.task.name:
            raise ConfigError(
                f"{key}: the run {section.run!r} has no attempts yet, or another task.",
                "Run it first, or name a run of this task.",
            )
        mistakes = Mistakes(earlier.attempts)
    return Shots(ShotSelection(task, section, ShotPool(source), mistakes))
