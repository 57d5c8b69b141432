"""A column of a data set of the Hugging Face hub; needs the package ``datasets``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from harness.builders.loaders._files import row_document
from harness.errors import ConfigError, DataMissing
from harness.records import Document


class HuggingFaceLoader:
    """A document per row, named by its number from 0.

    Args:
        dataset: Its name on the hub, or a folder written by ``save_to_disk``.
        config: One of its configurations; ``split``: one of its splits.
        column: The column of the text; short values of the others are kept as facts.
        revision: The revision on the hub; name one to make the build repeatable.
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
        """Yield the rows' numbers."""
        return map(str, range(len(self._rows)))

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the texts."""
        for name in self.names():
            if name in names:
                yield row_document(name, self._rows[int(name)], self._column)


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
    except Exception as error:  # the hub, its client and the data set's files raise anything
        raise DataMissing(
            f"Cannot load the data set {dataset!r} ({type(error).__name__}: {str(error)[:200]}).",
            "Check its name, config and split, and that the hub can be reached.",
        ) from None


plugin = HuggingFaceLoader
