"""A column of a data set of the Hugging Face hub, where the package ``datasets`` is installed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from harness.builders.loaders._rows import document
from harness.errors import ConfigError, DataMissing
from harness.records import Document


class HuggingFaceLoader:
    """A document per row, named by its number from 0.

    dataset: its name on the hub, or a folder that ``save_to_disk`` has written.
    config: which of its configurations.
    split: which of its parts.
    column: the one that holds the text; the others tell about it.
    revision: the state of the data set on the hub; name one, and the build can be repeated.
    """

    def __init__(
        self,
        dataset: str,
        config: str | None = None,
        split: str = "train",
        column: str = "text",
        revision: str | None = None,
    ) -> None:
        self._rows = _rows(dataset, config, split, revision)
        self._column = column

    def names(self) -> Iterator[str]:
        """The rows' numbers."""
        return map(str, range(len(self._rows)))

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The texts."""
        for name in self.names():
            if name in names:
                yield document(name, self._rows[int(name)], self._column)


def _rows(dataset: str, config: str | None, split: str, revision: str | None) -> Any:
    try:
        import datasets
    except ImportError:
        raise ConfigError(
            "The loader 'huggingface' needs the package datasets.", "Run: pip install datasets"
        ) from None
    try:
        if Path(dataset).is_dir():
            found = datasets.load_from_disk(dataset)
            return found[split] if isinstance(found, datasets.DatasetDict) else found
        return datasets.load_dataset(dataset, config, split=split, revision=revision)
    except Exception as error:  # whatever the hub, its client or the data set's files come to
        raise DataMissing(
            f"The data set {dataset!r} cannot be loaded ({type(error).__name__}: "
            f"{str(error)[:200]}).",
            "Check its name, config and split, and that the hub can be reached.",
        ) from None


plugin = HuggingFaceLoader
