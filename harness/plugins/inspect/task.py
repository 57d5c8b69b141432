"""Tasks of Inspect (https://inspect.aisi.org.uk) that generate one answer per sample.

Inspect loads the samples, builds the prompts and scores the answers. The harness makes the calls,
and keeps the answers.

Tasks with features that the harness does not have are refused. Solvers and scorers run on one
sample at a time, without Inspect's event loop or models.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os.path
import re
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs
from typing_extensions import override

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataMissing, HarnessError, import_extra
from harness.execution import check_execution
from harness.plugin import Task
from harness.plugin_interface import wrap_errors
from harness.records import MAX_MAGNITUDE, Decoding, Instance, Message, Request, Score, verdict

SOLVERS = frozenset(
    {"chain_of_thought", "generate", "multiple_choice", "prompt_template", "system_message"}
    | {"assistant_message", "user_message"}
)
GENERATING = frozenset({"generate", "multiple_choice"})
JUDGING = frozenset({"model_graded_fact", "model_graded_qa"})
NEEDS = {  # attributes of tasks and samples that the harness does not carry out
    "setup": "a setup solver",
    "sandbox": "a sandbox",
    "approval": "tool approval",
    "files": "files in a sandbox",
}


class InspectTaskParts(NamedTuple):
    """A task of Inspect, with its solvers and, by name, its scorers."""

    name: str
    solvers: list[Any]
    scorers: dict[str, Any]
    config: Any  # Inspect's GenerateConfig


class InspectSample(NamedTuple):
    """A sample of Inspect's data set, with its task."""

    task: InspectTaskParts
    sample: Any


def load(spec: str, args: dict[str, Any]) -> list[InspectSample]:
    """Return the samples of the tasks that ``spec`` names in Inspect's notation.

    Raises:
        ExecutionRefused: If these are not tasks of an installed package, and the command only reads
            runs.
    """
    file = spec.partition("@")[0]
    package = spec.partition("/")[0]
    installed = entry_points(group="inspect_ai").names
    if Path(file).exists() or package not in installed:
        check_execution(file)
    loader = import_extra("inspect_ai._eval.loader", "inspect")
    # Inspect prints its progress.
    with wrap_errors(f"Loading {spec!r} with Inspect"), contextlib.redirect_stdout(sys.stderr):
        tasks = loader.load_tasks([spec], args)
    if not tasks:
        raise DataMissing(f"Inspect finds no task {spec!r}.", "Write FILE.py or FILE.py@NAME.")
    samples = []
    for task in tasks:
        parts = _parts(task)
        for number, sample in enumerate(task.dataset, start=1):
            _refuse(f"Inspect's task {task.name!r}, sample {number}", sample)
            if sample.id is None:
                sample.id = number
            samples.append(InspectSample(parts, sample))
    return samples


def _parts(task: Any) -> InspectTaskParts:
    where = f"Inspect's task {task.name!r}"
    _refuse(where, task)
    solvers = _chained(task.solver)
    names = [_name(solver) for solver in solvers]
    n_generating = 0
    for name in names:
        if name not in SOLVERS:
            raise _refused(where, f"the solver {name!r}")
        n_generating += name in GENERATING
    if n_generating != 1:
        raise _refused(where, "not exactly one answer of the model")
    scorers = {_name(scorer): scorer for scorer in task.scorer or ()}
    if judging := sorted(JUDGING & set(scorers)):
        remedy = "Use a judge of the harness (harness docs judges)."
        raise ConfigError(f"{where} needs the scorer {judging[0]!r}, a model.", remedy)
    if not scorers:
        raise _refused(where, "no scorer")
    return InspectTaskParts(task.name, solvers, scorers, task.config)


def _refuse(where: str, part: Any) -> None:
    """Raise ConfigError if a task or sample needs a feature that the harness does not have."""
    for name, what in NEEDS.items():
        if getattr(part, name, None):
            raise _refused(where, what)


def _refused(where: str, what: str) -> HarnessError:
    remedy = f"The harness runs tasks with one answer per sample, and with: {sorted(SOLVERS)}."
    return ConfigError(f"{where} has {what}.", remedy)


def _chained(solver: Any) -> list[Any]:
    chain = import_extra("inspect_ai.solver._chain", "inspect").Chain
    if not isinstance(solver, chain | list):
        return [solver]
    solvers = []
    for part in solver:
        solvers += _chained(part)
    return solvers


def _name(part: Any) -> str:
    """Return the name of a solver or scorer, without Inspect's own prefix."""
    info = import_extra("inspect_ai._util.registry", "inspect").registry_info(part)
    return str(info.name).removeprefix("inspect_ai/")


MODEL = "mockllm/model"  # a model's name, which Inspect's states require
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's grades: correct, partial, …
NO_LOOP = re.compile("event loop|async library")  # in errors of asyncio, AnyIO and sniffio


class _Asked(BaseException):  # no solver catches it
    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state


def asked(sample: InspectSample) -> tuple[Message, ...]:
    """Return the messages for which a sample's solvers generate an answer."""

    async def generate(state: Any, *args: Any, **options: Any) -> Any:
        raise _Asked(state)

    try:
        _solved(sample, generate)
    except _Asked as found:
        return tuple(_message(sample, message) for message in found.state.messages)
    raise ConfigError(f"{_where(sample)}: its solvers do not ask the model.")


def scores(sample: InspectSample, text: str) -> dict[str, tuple[Score, str | None]]:
    """Return each scorer's score of an answer, and the part of the answer that it scored.

    The part is None if it is unknown. A scorer with several values has a score for each
    (``SCORER.KEY``). If a scorer or solver fails, the error is the reason of a score without a
    value.
    """
    output = import_extra("inspect_ai.model", "inspect").ModelOutput
    target = import_extra("inspect_ai.scorer", "inspect").Target(sample.sample.target)

    async def generate(state: Any, *args: Any, **options: Any) -> Any:
        state.output = output.from_content(MODEL, text)
        state.messages.append(state.output.message)
        return state

    scores_by_name: dict[str, tuple[Score, str | None]] = {}
    for name, scorer in sample.task.scorers.items():
        try:
            with wrap_errors(f"The scorer {name!r}"):
                theirs = _result(scorer(_solved(sample, generate), target))
        except ConfigError as error:
            scores_by_name[name] = Score(None, None, error.message), None
            continue
        if theirs is None:
            scores_by_name[name] = Score(None, None, "The scorer gives no score."), None
            continue
        values = theirs.value
        if not isinstance(values, dict) or not values:
            values = {"": values}
        for key, value in values.items():
            score_name = f"{name}.{key}" if key else name
            score = _score(value, theirs.explanation or "")
            scores_by_name[score_name] = (score, theirs.answer)
    return scores_by_name


def _score(value: Any, reason: str) -> Score:
    if isinstance(value, bool):
        return Score(value, value, "" if value else reason)
    if isinstance(value, str) and value in GRADES:
        if value == "C":
            return Score(GRADES[value], True, share=True)
        return Score(GRADES[value], False, reason, share=True)
    if isinstance(value, int | float):
        if abs(value) <= MAX_MAGNITUDE:
            return Score(float(value), None, reason)
        return Score(
            None, None, f"The scorer's value is not from {-MAX_MAGNITUDE:g} to {MAX_MAGNITUDE:g}."
        )
    return Score(None, None, f"The scorer's value is not a number: {value!r:.80}.")


def _solved(inspect_sample: InspectSample, generate: Any) -> Any:
    """Return the state after all solvers, which call ``generate`` for the answer."""
    model = import_extra("inspect_ai.model", "inspect")
    sample = inspect_sample.sample.model_copy(deep=True)  # solvers change messages
    messages = sample.input
    if isinstance(messages, str):
        messages = [model.ChatMessageUser(content=messages)]
    state = import_extra("inspect_ai.solver", "inspect").TaskState(
        model=model.ModelName(MODEL),
        sample_id=sample.id,
        epoch=1,
        input=sample.input,
        messages=messages,
        target=import_extra("inspect_ai.scorer", "inspect").Target(sample.target),
        choices=sample.choices,
        metadata=sample.metadata or {},
    )
    with wrap_errors(f"{_where(inspect_sample)}: a solver"):
        for solver in inspect_sample.task.solvers:
            state = _result(solver(state, generate))
    return state


def _result(work: Coroutine[Any, Any, Any]) -> Any:
    """Return a coroutine's result, or raise ConfigError if it waits for anything."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    except RuntimeError as error:
        if not NO_LOOP.search(str(error)):
            raise
    work.close()
    raise ConfigError("It waits for a model, a sandbox or the network, which it cannot have here.")


def _message(sample: InspectSample, message: Any) -> Message:
    if not isinstance(message.content, str) or message.role == "tool":
        raise ConfigError(f"{_where(sample)} has a message that is not text.")
    if getattr(message, "tool_calls", None):
        raise ConfigError(f"{_where(sample)} has a message with tool calls.")
    return Message(message.role, message.content)


def _where(inspect_sample: InspectSample) -> str:
    return f"Inspect's task {inspect_sample.task.name!r}, sample {inspect_sample.sample.id!r}"


MAX_TOKENS = 2048  # Inspect's default for providers that need a limit

One = Instance[InspectSample]


class InspectTask(Task[InspectSample]):
    """Tasks of Inspect, with Inspect's prompts and scorers, if they generate one answer.

    Args:
        task: A Python file with tasks (FILE.py or FILE.py@NAME), the name of an installed task
            (PACKAGE/NAME), or a data set of the Hugging Face Hub with an eval.yaml
            (hf/OWNER/NAME).
        args: Arguments of the task, as Inspect's option -T.
    """

    on_truncated = "grade"

    def __init__(self, task: str, args: dict[str, Any] | None = None, *, data: DataFolder) -> None:
        file, separator, name = task.partition("@")
        file = data.next_to_run_file(file)
        if Path(file).is_file():  # Inspect looks for files below the current folder
            file = os.path.relpath(file)
        self._name = f"{file}{separator}{name}"
        self._args = args or {}

    @cached_property
    def _samples(self) -> list[InspectSample]:
        return load(self._name, self._args)

    def instances(self) -> Iterator[One]:
        """Yield the samples in order, with the group ``task``."""
        several = len({sample.task.name for sample in self._samples}) > 1
        for sample in self._samples:
            name = f"{sample.task.name}/{sample.sample.id}" if several else str(sample.sample.id)
            yield Instance(name, sample, {"task": sample.task.name})

    def fingerprint(self) -> Mapping[str, str]:
        """Return Inspect's version, and hashes of the task's file and of all samples."""
        digest = hashlib.sha256()
        for sample in self._samples:
            prompt = [(message.role, message.content) for message in asked(sample)]
            fields = sample.sample.target, sample.sample.choices, sample.sample.metadata
            part = json.dumps([sample.task.name, sample.sample.id, prompt, fields], default=str)
            digest.update(part.encode(errors="surrogatepass"))
        path = Path(self._name.partition("@")[0])
        code = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        version = import_extra("inspect_ai", "inspect").__version__
        return {"inspect": version, "task_sha256": code, "dataset_sha256": digest.hexdigest()}

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the messages for which the task's solvers generate an answer.

        ``shots`` are not used: Inspect's solvers put few-shot examples into the prompt.
        """
        return asked(instance.data)

    @override
    def adapted_request(self, instance: One, request: Request) -> Request:
        """Return a request with the task's parameters, except those that the run file sets."""
        config = instance.data.task.config
        decoding = request.decoding
        theirs = {
            "max_tokens": config.max_tokens or MAX_TOKENS,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": tuple(config.stop_seqs or ()),
        }
        mine = {key: getattr(decoding, key) for key in decoding.specified_fields()}
        return structs.replace(request, decoding=Decoding(**(theirs | mine)))

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return the scores that the task's scorers give.

        If a scorer fails, its score has no value, and the error is the reason.
        """
        return {name: score for name, (score, _) in scores(instance.data, text).items()}

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return the scores of an empty answer."""
        return self.score(instance, "")

    @override
    def extracted(self, instance: One, text: str) -> str | None:
        """Return the part that the first scorer read, or None if it is all the text or unknown."""
        part = next(iter(scores(instance.data, text).values()))[1]
        return None if part == text else part

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return a message that the answer is wrong."""
        return "Your answer is not correct. Please answer again."

    def reference(self, instance: One) -> str | None:
        """Return the target, alone or after "ANSWER: ", if it passes, else None."""
        target = self.expected_answer(instance)
        if target is None:
            return None
        for text in (target, f"ANSWER: {target}"):
            if verdict(self.score(instance, text)):
                return text
        return None

    @override
    def expected_answer(self, instance: One) -> str | None:
        """Return the sample's target (the first of several), if any."""
        target = instance.data.sample.target
        if not isinstance(target, str):
            target = next(iter(target), None)
        return target or None
