"""COLLIE: constrained text generation, checked by rules (Yao et al. 2023, arXiv 2307.08689).

Each prompt asks for a text that satisfies a constraint, and rules check the answer. The data sets
are ``builtin`` (a small set shipped with the harness), ``v1`` (the published 2,080 instances, in
the data folder), or a file of your own constraints (docs/collie.md).

The checker ``constraint`` takes a constraint from the run file, in COLLIE's grammar. English text
is split as by COLLIE. For text in other scripts, words and sentences are those of
`harness.scoring.text`.
"""

from __future__ import annotations

import string
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, get_args

from msgspec import Meta, Struct
from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import SUMMARY_COLUMNS, Row, convert_row, read_unique, summary_statistics
from harness.errors import ConfigError, DataInvalid, reraise_as, unreadable_file_error
from harness.plugins.benchmarks.collie.constraints.check import (
    CheckResult,
    UnicodeSplitter,
    check,
    fingerprints,
    read,
    splitter,
)
from harness.plugins.benchmarks.collie.constraints.grammar import (
    LEVELS,
    Level,
    Specification,
    Target,
    Unit,
)
from harness.plugins.benchmarks.collie.constraints.render import feedback, instruction, score
from harness.ports import DataTable, Task, read_paper
from harness.records import Instance, JsonObject, Message, Score
from harness.scoring.text import MayCountWords, Uncountable, english_rules_details, normalize_text

BUILTIN = Path(__file__).with_name("builtin.jsonl")
V1 = "collie/instances.jsonl"

IGNORED = ("group", "metadata", "oneshot_prompt", "near_misses")  # unused keys of the files

# By the first four letters of a structure (``sent03``): the level, which v1 does not state.
LEVEL_OF: dict[str, Level] = {level[:4]: level for level in LEVELS[1:]}

# Words that the paper accepts in addition to its word list.
LONG_WORDS = frozenset(Path(__file__).with_name("long_words.txt").read_text("utf-8").split())

PAPER = read_paper(__file__)
_PAPER = "Yao et al. 2023, arXiv 2307.08689"


class CollieItem(Struct, frozen=True):
    """A constraint with its prompt and, if known, an example that satisfies it."""

    id: str
    specification: Specification
    prompt: str
    example: str | None
    structure: str
    source: str


One: TypeAlias = Instance[CollieItem]


class CollieTask(Task[CollieItem]):
    """The COLLIE benchmark, or your own constraints in its format.

    Args:
        dataset: ``builtin``, ``v1``, or a path.
        word_list: A file with one word per line: a name in the data folder or a path (on Debian,
            ``/usr/share/dict/words``). The score ``word`` then says whether an answer that should
            be a word is in the list. It does not affect what passes.
        unique_prompts: Evaluate each prompt once instead of each instance (v1 has 1,435 prompts and
            2,080 instances). All figures are then means over prompts.
    """

    on_truncated = "fail"
    group_meanings: ClassVar = PAPER.group_meanings
    effects = PAPER.effects

    def __init__(
        self,
        dataset: str = "builtin",
        word_list: str | None = None,
        unique_prompts: bool = False,
        *,
        data: DataFolder,
    ) -> None:
        self.dataset = dataset
        self._unique_prompts = unique_prompts
        names = {"builtin": str(BUILTIN), "v1": V1}
        self.path = data.file(names.get(dataset, dataset))
        self._nltk_data = data.root / "nltk_data"
        self._word_list: Path | None = None
        self._words: frozenset[str] | None = None
        if word_list:
            self._word_list = data.file(word_list)
            self._words = read_words(self._word_list)

    def instances(self) -> Iterator[One]:
        """Yield the instances in file order, or only the first of each prompt."""
        items: dict[str, CollieItem] = {}
        sources = defaultdict[str, set[str]](set)
        for item in read_items(self.path):
            key = item.prompt if self._unique_prompts else item.id
            items.setdefault(key, item)
            sources[key].add(item.source)
        for key, item in items.items():
            source = item.source if len(sources[key]) == 1 else "several"
            groups = {"structure": item.structure, "source": source}
            yield Instance(id=item.id, data=item, groups=groups)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data set's and splitter's names, and hashes of what scores depend on."""
        fields = {
            "dataset": self.dataset,
            "dataset_sha256": sha256(self.path),
            "splitter": splitter(self._nltk_data).name,
        }
        for item in read_items(self.path):
            measures = fingerprints(item.specification)
            fields |= {f"measure_sha256/{name}": digest for name, digest in measures}
        if self._word_list:
            # The suffix prevents resuming older runs, in which the list decided what passes.
            fields["word_list_sha256"] = f"{sha256(self._word_list)}, not required"
        return fields

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return one user message, with shots in the form of the published one-shot prompts."""
        examples = []
        for shot in shots:
            if shot.data.example is None:
                problem = f"{shot.id!r} has no example and cannot be a shot."
                raise ConfigError(problem, "Give it an 'example'.")
            examples.append(f"{shot.data.prompt}\n{shot.data.example}\n\n")
        return (Message("user", "".join((*examples, instance.data.prompt))),)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return ``constraints``, the verdict, and ``word`` if a word list applies."""
        constraints = score(self._verdict(instance, text))
        if instance.data.specification.units() & {"word", "sentence"}:
            hint = "; the check constraint counts by Unicode's rules"
            details = {**constraints.details, **english_rules_details(text, hint)}
            constraints = replace(constraints, details=details)
        return {"constraints": constraints, **self._word(instance, text)}

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return the score ``word`` as False, or no score if no word list applies."""
        return self._word(instance, "")

    def _word(self, instance: One, text: str) -> dict[str, Score]:
        if self._words is None or instance.data.specification.level != "word":
            return {}
        word = text.strip().strip(string.punctuation).lower()
        if word in self._words:
            return {"word": Score(True)}
        return {"word": Score(False, reason="not in the word list")}

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return feedback that compares the answer with the constraints."""
        return feedback(instance.data.specification, self._verdict(instance, text))

    @override
    def must_keep(self, instance: One) -> tuple[str, ...]:
        """Return the target values of the constraints."""
        return _values(instance.data.specification.targets)

    def reference(self, instance: One) -> str | None:
        """Return the example, if any. With a current NLTK, 20 of the published 2,080 fail."""
        return instance.data.example

    @override
    def describe(self) -> Iterator[DataTable]:
        """Yield tables of the instances and of the lengths of examples."""
        counts = defaultdict[str, Counter[str]](Counter)
        prompts = defaultdict[str, set[str]](set)
        lengths = defaultdict[str, list[float]](list)
        units = splitter(self._nltk_data)
        names = [f"{unit}s per {level}" for level in LEVELS for unit in get_args(Unit)]
        for instance in self.instances():
            item = instance.data
            counts[item.structure][item.source] += 1
            prompts[item.structure].add(item.prompt)
            if item.example is None:
                continue
            level = item.specification.level
            for unit in get_args(Unit)[: LEVELS.index(level)]:
                lengths[f"{unit}s per {level}"].append(len(units.units(item.example, unit)))
        sources = sorted(set().union(*counts.values()))
        rows: list[tuple[str | float | None, ...]] = []
        for structure, by_source in sorted(counts.items()):
            numbers = [by_source[source] for source in sources]
            rows.append((structure, *numbers, by_source.total(), len(prompts[structure])))
        columns = ("structure", *sources, "instances", "prompts")
        yield DataTable(columns, rows, f"{_PAPER}, figures 2a and 9")
        rows = [(name, *summary_statistics(lengths[name])) for name in names if name in lengths]
        yield DataTable(("length of examples", *SUMMARY_COLUMNS), rows, f"{_PAPER}, figure 2c")

    @override
    def leaks(self, instance: One, shot: One) -> bool:
        """Return whether the shot's example also satisfies this instance's constraint."""
        example = shot.data.example
        return example is not None and self._verdict(instance, example).passed

    def _verdict(self, instance: One, text: str) -> CheckResult:
        return check(instance.data.specification, text, splitter(self._nltk_data))


class _Row(Struct):
    id: Annotated[str, Meta(min_length=1)]
    level: Any = None
    constraint: Any = None
    targets: Any = None
    prompt: str | None = None
    example: str | None = None
    structure: str | None = None
    source: str | None = None


def _item(raw: Row, where: str) -> CollieItem:
    row = convert_row(raw, _Row, where, IGNORED)
    level = row.level or LEVEL_OF.get((row.structure or "")[:4])
    if level is None:
        remedy = "Write word, sentence, paragraph or passage."
        raise DataInvalid(f"{where}: 'level' is missing.", remedy)
    form: JsonObject = {"level": level}
    for key in ("constraint", "targets"):
        if key in raw:
            form[key] = raw[key]
    specification = read(form, where)
    prompt = row.prompt or instruction(specification)
    structure = row.structure or "own"
    return CollieItem(row.id, specification, prompt, row.example, structure, row.source or "own")


read_items = partial(read_unique, build=_item)  # yields the items of a file


def read_words(path: Path) -> frozenset[str]:
    """Return the words in a file (one per line), in lower case, and `LONG_WORDS`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    except UnicodeDecodeError:
        raise DataInvalid(f"{path} is not a word list: it is not UTF-8 text.") from None
    words = {line.strip().lower() for line in lines}
    words.discard("")
    if not words:
        raise DataInvalid(f"{path} is not a word list: it has no words.")
    return LONG_WORDS | words


def _values(targets: Target) -> tuple[str, ...]:
    if isinstance(targets, tuple):
        return tuple(value for target in targets for value in _values(target))
    return (str(targets),)


class ConstraintChecker(MayCountWords):
    """Passes text that satisfies a constraint (`harness.plugins.benchmarks.collie.constraints`).

    Texts are compared in Unicode's normalisation form NFC, and characters are the code points of
    that form. Text whose words or sentences cannot be counted has no verdict.

    Args:
        level: Unit of the whole text: character, word, sentence, paragraph or passage.
        constraint: A base constraint, or several combined by ``logic``.
        targets: The target, or a list of targets nested like the combined constraints.
    """

    def __init__(self, level: str, constraint: JsonObject, targets: Any) -> None:
        raw = {"level": level, "constraint": _composed(constraint), "targets": _composed(targets)}
        with reraise_as(ConfigError):
            self.specification = read(raw, "The checker 'constraint'")

    @property
    def counts_words(self) -> bool:
        """Whether the constraint divides text into words."""
        return "word" in self.specification.units()

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason lists the constraints that fail.

        The score has no value if the units of the text cannot be counted.
        """
        try:
            units = splitter(kind=UnicodeSplitter)
            return score(check(self.specification, normalize_text(text), units))
        except Uncountable as error:
            return error.score()


def _composed(raw: Any) -> Any:
    if isinstance(raw, str):
        return normalize_text(raw)
    if isinstance(raw, dict):
        return {key: _composed(value) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_composed(value) for value in raw]
    return raw
