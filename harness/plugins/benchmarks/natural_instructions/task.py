"""Natural Instructions: tasks described by instructions that were written for crowd workers.

The paper (Mishra et al. 2022, arXiv 2104.08773) asks whether a model can do an unseen task from its
instructions, and which parts of them help. ROUGE-L gives no verdict. The verdict is `exact_match`
on the truncated answer, which suits labels but is strict for generated text.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import SUMMARY_COLUMNS, summary_statistics
from harness.errors import ConfigError, suggest_name
from harness.plugin_loader import kind
from harness.plugins.benchmarks.natural_instructions import encodings, loading, overlap
from harness.plugins.benchmarks.natural_instructions.encodings import (
    Examples,
    InstructionItem,
    Showing,
)
from harness.plugins.benchmarks.natural_instructions.overlap import (
    bare,
    exact_match,
    first_line,
    rouge_l,
)
from harness.ports import DataTable, Metric, Task, read_paper
from harness.records import WARNING_KEY, Instance, JsonObject, Message, Score
from harness.scoring.text import Uncountable
from harness.wording import truncate

BUILTIN = Path(__file__).with_name("builtin")
V1 = "natural_instructions/tasks"

Truncation = Literal["none", "first_line", "stop"]

_PAPER = "Mishra et al. 2022, arXiv 2104.08773"

COPIED = 0.9  # an answer is a copy if at least this share of its words is in the input, in order
SHORTEST_COPY = 4  # minimum words of a copy: short right answers may consist of words of the input

IGNORED_WORDS = {
    WARNING_KEY: "its official tokeniser ignores letters other than a to z; see rouge_l_unicode"
}

_OTHERS = ("input", "output", r"(?:posi|nega)tive example")
_FIELDS = "|".join([*map(re.escape, loading.TEXT_FIELDS), *_OTHERS])
_NEXT = re.compile(rf"^[ \t]*(?:{_FIELDS})\d*[ \t]*[:-]", re.IGNORECASE | re.MULTILINE)

One: TypeAlias = Instance[InstructionItem]


def failures(text: str, references: Sequence[str], source: str) -> dict[str, bool]:
    """Return whether an answer shows each of three kinds of failure.

    - ``redundant``: it begins with a right answer and continues.
    - ``goes_on``: it continues with another field or instance, in the form of the prompt.
    - ``copies_input``: nearly all words of its first line are in the input (``source``), in order,
      and no reference is such a copy.
    """
    if exact_match(text, references):
        return dict.fromkeys(("redundant", "goes_on", "copies_input"), False)
    copies_input = _is_copy(first_line(text), source)
    for reference in references:
        copies_input = copies_input and not _is_copy(reference, source)
    return {
        "redundant": _begins_right(text, references),
        "goes_on": _NEXT.search(text) is not None,
        "copies_input": copies_input,
    }


def _begins_right(text: str, references: Sequence[str]) -> bool:
    text = text.strip().lower()
    for reference in map(bare, references):
        rest = text[len(reference) :]
        if reference and text.startswith(reference) and not rest[:1].isalnum():
            return bool(re.search(r"\w", rest))
    return False


def _is_copy(text: str, source: str) -> bool:
    words, common = overlap.covered(text, source)
    return words >= SHORTEST_COPY and common >= COPIED * words


class NaturalInstructionsTask(Task[InstructionItem]):
    """Natural Instructions: measures which parts of an instruction help with an unseen task.

    Args:
        dataset: ``builtin``, ``v1``, or a file or folder of tasks.
        tasks: The tasks to use: names, patterns of names ("*mctaco*"), evaluation or training (the
            paper's 12 evaluation tasks, and all others), or category:NAME. Default: all.
        encoding: instance_only, prompt, prompt_definition, positive_examples or full, or a list of
            the instruction's fields in order.
        examples: Positive examples to show, if the encoding has them: a number, a mapping of tasks
            to numbers, own (all that the task has) or fit (as many as fit in token_budget).
        form: paper (the authors' text, byte for byte) or chat.
        truncation: The part of an answer used by exact_match, token_f1, accuracy and further
            metrics: none (all of it), first_line, or stop (the part before a stop sequence).
        stop: The stop sequences for the truncation stop.
        instances: Maximum number per task; null for all. The authors use 50.
        categories: A YAML file that maps tasks to categories and overrides the known ones.
        token_budget: Maximum estimated tokens of the longest prompt, if examples is fit.
        metrics: Further metrics, each {name: ..., OPTIONS}: bleurt, or a plug-in.
    """

    on_truncated = "grade"
    measure = "rouge_l"
    claims = read_paper(__file__).claims
    fields = staticmethod(encodings.named_fields)

    def __init__(
        self,
        dataset: str = "builtin",
        tasks: list[str] | None = None,
        encoding: str | list[str] = "full",
        examples: int | Literal["own", "fit"] | dict[str, int] = "own",
        form: Literal["paper", "chat"] = "chat",
        truncation: Truncation = "none",
        stop: list[str] | None = None,
        instances: int | None = 50,
        categories: str | None = None,
        token_budget: int = encodings.GPT3_PROMPT,
        metrics: list[JsonObject] | None = None,
        *,
        data: DataFolder,
    ) -> None:
        self.dataset = dataset
        names = {"builtin": str(BUILTIN), "v1": V1}
        self._metrics = _built(metrics or [])
        self._truncation = truncation
        self._stops = stop or []
        if (truncation == "stop") != bool(self._stops):
            remedy = "Set both the truncation and the sequences at which an answer ends."
            raise ConfigError("task.stop and task.truncation: stop go together.", remedy)
        if not all(self._stops):
            raise ConfigError("A stop sequence of task.stop is empty.", "Remove it.")
        self._category_files = [data.file(categories)] if categories else []
        self._own_categories = [loading.read_categories(file) for file in self._category_files]
        self._known_categories = loading.read_categories(loading.SHIPPED)
        self._files = self._chosen(data.file_or_folder(names.get(dataset, dataset)), tasks)
        _check_numbers(examples, instances, self._files)
        fields = encodings.fields_of(encoding)
        self._showing = Showing(fields, form, examples, instances, token_budget)

    def _chosen(self, path: Path, tasks: Sequence[str] | None) -> dict[str, Path]:
        files = loading.task_files(path)
        if tasks is None:
            return files
        if not tasks:
            raise ConfigError("task.tasks names no task.", "Name tasks, or remove it to use all.")
        groups = self._task_groups(files, tasks)
        chosen: set[str] = set()
        for selector in tasks:
            matches = groups.get(selector, set()).union(fnmatch.filter(files, selector))
            if matches:
                chosen |= matches
            elif selector in groups:
                [filled] = groups.keys() - {selector}
                problem = f"{path} has no task for {selector}: all {len(files)} are for {filled}."
                raise ConfigError(problem, f"Set task.tasks to {filled}, or remove it.")
            else:
                remedy = suggest_name(selector, [*groups, *files])
                raise ConfigError(f"{path} has no task {selector!r:.80}.", remedy)
        return {name: file for name, file in files.items() if name in chosen}

    def _task_groups(
        self, files: Mapping[str, Path], selectors: Sequence[str]
    ) -> dict[str, set[str]]:
        """Return the names of the tasks of each group: evaluation, training, and any category."""
        evaluated = {name for name in files if name.partition("_")[0] in loading.EVALUATION}
        groups = {"evaluation": evaluated, "training": files.keys() - evaluated}
        if any(selector.startswith("category:") for selector in selectors):
            for name, file in files.items():
                category = self._category(loading.read_task(file))
                groups.setdefault(f"category:{category}", set()).add(name)
        return groups

    def instances(self) -> Iterator[One]:
        """Yield the instances to evaluate, ordered by the name of their task."""
        encoding = encodings.label(self._showing.fields)
        for task in map(loading.read_task, self._files.values()):
            category = self._category(task)
            for item in self._showing.items(task, category):
                groups = {"task": task.name, "category": category, "encoding": encoding}
                yield Instance(item.id, item, groups | {"examples": str(item.n_examples)})

    def _category(self, task: loading.NaturalTask) -> str:
        category = loading.category_of(task.name, *self._own_categories) or task.category
        return category or loading.category_of(task.name, self._known_categories) or "unknown"

    @override
    def describe(self) -> Iterator[DataTable]:
        """Yield tables of the tasks by category, and of the lengths of their parts in words."""
        counts = defaultdict[str, Counter[str]](Counter)
        lengths = defaultdict[str, list[float]](list)
        for task in map(loading.read_task, self._files.values()):
            instruction = task.instruction
            examples = {"positive": instruction.positive, "negative": instruction.negative}
            numbers = counts[self._category(task)]
            numbers["tasks"] += 1
            numbers["instances"] += len(task.entries)
            for name in loading.TEXT_FIELDS:
                if text := instruction.text(name):
                    lengths[name].append(len(text.split()))
            for kind_name, kind_examples in examples.items():
                numbers[f"{kind_name} examples"] += len(kind_examples)
                for example in kind_examples:
                    title = f"{kind_name.title()} example"
                    lengths[f"{title}, input"].append(len(example.input.split()))
                    lengths[f"{title}, output"].append(len(example.output.split()))
            for entry in task.entries:
                lengths["Instance, input"].append(len(entry.input.split()))
                lengths["Instance, output"].append(len(entry.outputs[0].split()))
        columns = ("tasks", "instances", "positive examples", "negative examples")
        rows: list[tuple[str | float | None, ...]] = []
        for category, numbers in sorted(counts.items()):
            rows.append((category, *[numbers[column] for column in columns]))
        yield DataTable(("category", *columns), rows, f"{_PAPER}, table 1")
        rows = [(name, *summary_statistics(numbers)) for name, numbers in lengths.items()]
        yield DataTable(
            ("words per", *SUMMARY_COLUMNS), rows, f"{_PAPER}, table 1 and figures 5 to 8"
        )

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data set, hashes, and the versions of what computes the scores."""
        hashes = {name: sha256(path) for name, path in self._files.items()}
        listed = [f"{name} {digest}\n" for name, digest in hashes.items()]
        category_files = [*self._category_files, loading.SHIPPED]
        facts = {
            "dataset": self.dataset,
            "dataset_sha256": hashlib.sha256("".join(listed).encode()).hexdigest(),
            "categories_sha256": " ".join(map(sha256, category_files)),
            "stemmer": f"Porter, nltk {version('nltk')}",
        }
        for name, digest in hashes.items():
            # Allows comparing a run of some of the tasks with a run of all.
            facts[f"task_sha256/{name}"] = digest
        if self._showing.form == "chat":
            facts["wording_sha256"] = encodings.wording()
        facts |= {name: metric.fingerprint() for name, metric in self._metrics.items()}
        if self._showing.examples == "fit":
            facts["tokens"] = "estimate"
        return facts

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return one user message: instruction, examples and input. ``shots`` are not used."""
        return (Message("user", instance.data.prompt),)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return an answer's scores by name.

        If a reference has words that ROUGE-L ignores because their letters are not ASCII, there is
        also the score ``rouge_l_unicode``.
        """
        item = instance.data
        answer = self._answer(text)
        outputs = item.outputs
        details = {}
        if overlap.drops_words([text, *outputs]):
            details = IGNORED_WORDS
        scores = {
            "rouge_l": Score(rouge_l(text, outputs), details=details, share=True),
            "rouge_l_first_line": Score(rouge_l(first_line(text), outputs), share=True),
        }
        if overlap.drops_words(outputs):
            scores["rouge_l_unicode"] = _unicode_score(text, outputs)
        if self._stops:
            scores["rouge_l_stop"] = Score(rouge_l(answer, outputs), share=True)
        right = exact_match(answer, outputs)
        reason = "" if right else f"not {truncate(outputs[0], 60)!r}"
        scores["exact_match"] = Score(right, right, reason)
        scores["token_f1"] = Score(overlap.token_f1(answer, outputs), share=True)
        if item.labels:
            label = overlap.named_label(answer, item.labels)
            names_none = label is None
            right = label is not None and exact_match(label, outputs)
            scores["accuracy"] = Score(right, reason="names no label" if names_none else "")
            scores["no_label"] = Score(names_none)
        for name, metric in self._metrics.items():
            scores[name] = Score(metric.score(answer, outputs))
        for name, failed in failures(text, outputs, item.input).items():
            scores[name] = Score(failed)
        return scores

    def _answer(self, text: str) -> str:
        if self._truncation == "first_line":
            return first_line(text)
        if self._truncation == "stop":
            return overlap.before_stop(text, self._stops)
        return text

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return the scores of an empty answer, which fails in the authors' evaluation too."""
        scores = dict(self.score(instance, ""))
        for name, score in scores.items():
            if score.passed is not None:
                scores[name] = Score(False, False, score.reason)
        return scores

    @override
    def leaks(self, instance: One, shot: One) -> bool:
        """Return whether shot and instance have the same input, even if their prompts differ."""
        return bare(instance.data.input) == bare(shot.data.input)

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return feedback on whether the answer is right, without revealing the references."""
        if scores["exact_match"].passed:
            return "That is right."
        return "That is not the output. Please read the instruction again, and give the output."

    def reference(self, instance: One) -> str | None:
        """Return the first reference that is right after truncation, or None if there is none."""
        outputs = instance.data.outputs
        for output in outputs:
            if exact_match(self._answer(output), outputs):
                return output
        return None


def _unicode_score(text: str, outputs: Sequence[str]) -> Score:
    try:
        return Score(overlap.rouge_l_unicode(text, outputs), share=True)
    except Uncountable as error:
        return error.score()


def _built(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Metric]:
    built: dict[str, Metric] = {}
    for options in metrics:
        name = options.get("name")
        if not isinstance(name, str) or name in built:
            problem = f"task.metrics: {name!r:.80} is not a name, or occurs twice."
            raise ConfigError(problem, "Write {name: bleurt, ...}, each once.")
        plugin_options = {key: value for key, value in options.items() if key != "name"}
        built[name] = kind("metrics").build(name, plugin_options)
    return built


def _check_numbers(examples: Examples, instances: int | None, files: Mapping[str, Path]) -> None:
    if instances is not None and instances < 1:
        raise ConfigError("task.instances must be at least 1, or null for all.")
    numbers = examples if isinstance(examples, Mapping) else dict.fromkeys(files, examples)
    for number in numbers.values():
        if isinstance(number, int) and number < 0:
            raise ConfigError("task.examples must not be negative.", "Write 0 for none.")
    for name in files.keys() - numbers.keys():
        remedy = "Give each task a number, or list in task.tasks only those that have one."
        raise ConfigError(f"task.examples has no number for the task {name!r}.", remedy)
