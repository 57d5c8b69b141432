"""COLLIE: constrained text generation, checked by rule (Yao et al. 2023, arXiv 2307.08689).

An instance is a constraint; the prompt asks for a text that satisfies it, and the
score is whether the answer does. Data sets: ``builtin`` (our own, offline), ``v1``
(the published 2,080 instances, in the data folder), or a file of the user's own
constraints, JSONL or YAML, one per item:

    id: haiku
    level: paragraph            # or a structure whose name tells it, like para02
    constraint: {target_level: word, transformation: {op: count}, relation: "=="}
    targets: 17
    # optional: prompt, example (an answer that passes), structure, source

>>> [instance.id for instance in CollieTask(data=folder).instances()][:1]  # doctest: +SKIP
['word01/0']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from harness.datasets.folder import DataFolder, sha256
from harness.errors import ConfigError
from harness.records import Instance, Message, Score
from harness.scoring.constraints.check import Verdict, check
from harness.scoring.constraints.feedback import feedback
from harness.scoring.constraints.grammar import Target
from harness.scoring.constraints.levels import splitter
from harness.scoring.constraints.measuring import fingerprints
from harness.scoring.constraints.scores import score
from harness.tasks.collie.effects import EFFECTS
from harness.tasks.collie.items import BUILTIN, Item, read_items
from harness.tasks.collie.words import Words

V1 = "collie/instances.jsonl"


class CollieTask:
    """The COLLIE benchmark, or constraints of one's own in its form.

    dataset: ``builtin``, ``v1``, or a path.
    word_list: a file with a word per line, in the data folder or a path of its
        own (Debian: ``/usr/share/dict/words``). Where it is given, an answer
        that should be a word must also be one: the score ``word``.
    """

    on_truncated: Literal["fail", "grade"] = "fail"
    effects = EFFECTS

    def __init__(
        self, dataset: str = "builtin", word_list: str | None = None, *, data: DataFolder
    ) -> None:
        self.dataset = dataset
        self.path = (
            BUILTIN if dataset == "builtin" else data.file(V1 if dataset == "v1" else dataset)
        )
        self._nltk_data = data.root / "nltk_data"
        self._word_list = data.file(word_list) if word_list else None
        self._words = Words.read(self._word_list) if self._word_list else None

    def instances(self) -> Iterator[Instance[Item]]:
        """The instances in the order of the file.

        Raises: DataInvalid, naming file and item.
        """
        for item in read_items(self.path):
            yield Instance(
                id=item.id,
                data=item,
                groups={"structure": item.structure, "source": item.source},
            )

    def fingerprint(self) -> Mapping[str, str]:
        """The hashes of data and measures, and the splitter (loaded here, before any answer)."""
        found = {
            "dataset": self.dataset,
            "dataset_sha256": sha256(self.path),
            "splitter": splitter(self._nltk_data).name,
        }
        for item in read_items(self.path):
            for name, digest in fingerprints(item.specification):
                found[f"measure_sha256/{name}"] = digest
        if self._word_list:
            found["word_list_sha256"] = sha256(self._word_list)
        return found

    def messages(
        self, instance: Instance[Item], shots: Sequence[Instance[Item]]
    ) -> tuple[Message, ...]:
        """The instruction, as recorded or as rendered.

        Shots go before it as in the published one-shot prompts: instruction and example,
        each in lines of their own, then a blank line.

        Raises: ConfigError for a shot without an example.
        """
        shown = []
        for shot in shots:
            if shot.data.example is None:
                raise ConfigError(
                    f"{shot.id!r} has no example and cannot be a shot.", "Give it an 'example'."
                )
            shown.append(f"{shot.data.prompt}\n{shot.data.example}\n\n")
        return (Message("user", "".join((*shown, instance.data.prompt))),)

    def score(self, instance: Instance[Item], text: str) -> Mapping[str, Score]:
        """``constraints``, and for a word ``word`` where there is a word list."""
        scores = {"constraints": score(self._verdict(instance, text))}
        if self._words and instance.data.specification.level == "word":
            scores["word"] = self._words.score(text)
        return scores

    def feedback(self, instance: Instance[Item], text: str, scores: Mapping[str, Score]) -> str:
        """What was asked for and what was generated instead."""
        said = feedback(instance.data.specification, self._verdict(instance, text))
        if "word" in scores and not scores["word"].passed:
            said += f"\n{text.strip()!r} is not in the word list."
        return said

    def must_keep(self, instance: Instance[Item]) -> tuple[str, ...]:
        """Every target value: numbers, words and sentences."""
        return tuple(_values(instance.data.specification.targets))

    def reference(self, instance: Instance[Item]) -> str | None:
        """The example; 20 of the published 2,080 do not pass with today's NLTK."""
        return instance.data.example

    def leaks(self, instance: Instance[Item], shot: Instance[Item]) -> bool:
        """Whether the shot's example satisfies this instance's constraint."""
        example = shot.data.example
        return example is not None and self._verdict(instance, example).passed

    def _verdict(self, instance: Instance[Item], text: str) -> Verdict:
        return check(instance.data.specification, text, splitter(self._nltk_data))


def _values(targets: Target) -> Iterator[str]:
    if isinstance(targets, tuple):
        for target in targets:
            yield from _values(target)
    else:
        yield str(targets)


plugin = CollieTask
