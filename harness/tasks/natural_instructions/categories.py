"""Which category a task is of: the first JSON form does not say, so a YAML file does.

The file maps names, or patterns of names, to categories; the first that fits counts:

    subtask022_cosmosqa_passage_inappropriate_binary: classification
    "*_question_generation*": question generation

Ours (``categories.yaml``) holds what the paper's table of tasks says, as far as names tell it.

>>> Categories.read().of("subtask003_mctaco_question_generation_event_duration")
'question generation'
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.config import loading as yaml_files
from harness.errors import ConfigError, DataInvalid

SHIPPED = Path(__file__).with_name("categories.yaml")

CLASSIFICATION = "classification"
"""The category whose answers are labels."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Categories:
    """Patterns of task names, in order, with their categories."""

    patterns: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path = SHIPPED) -> Categories:
        """The patterns of a file.

        Raises: DataInvalid where it is no mapping of names to categories.
        """
        try:
            raw = yaml_files.read(path, "list of categories", "Write 'TASK: CATEGORY' in lines.")
        except ConfigError as error:
            raise DataInvalid(error.message, error.remedy) from None
        for pattern, category in raw.items():
            if not isinstance(category, str) or not category.strip():
                raise DataInvalid(f"{path}: the category of {pattern!r:.80} must be a text.")
        return cls(tuple(raw.items()))

    def of(self, name: str) -> str | None:
        """The category of a task, None where no pattern fits."""
        return next(
            (category for pattern, category in self.patterns if fnmatchcase(name, pattern)), None
        )
