"""A benchmark made from a data set on the Hugging Face Hub, or from its files (docs/hub.md).

The library datasets reads the data. No code of a data set is executed: it reads data files only.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.config.settings import check_network
from harness.datasets.folder import DataFolder, sha256
from harness.datasets.row_formats import read_fields, to_json_types
from harness.errors import (
    ConfigError,
    DataInvalid,
    DataMissing,
    import_extra,
    reraise_as,
    suggest_name,
    unreadable_file_error,
)
from harness.prompts import Template
from harness.tasks.items import QuestionForm
from harness.tasks.rows_task import RowsTask

MOST_KEPT = 20_000  # rows of a data set that are kept in memory
COMMIT = re.compile(r"[0-9a-f]{40}")
MEDIA = ("Audio", "Image", "Video", "Pdf", "Nifti", "Mesh")  # types of columns that are left out


@dataclass(frozen=True)
class HubDataset:
    """The rows of a split of a data set.

    Args:
        name: ``OWNER/NAME`` on the Hub, or the path of a folder or file.
        subset: The name of a configuration; None if there is only one.
        split: The name of the split; None for the only one, or for ``test``.
        revision: A commit, tag or branch on the Hub; None for the main branch.
        streaming: Whether to read the rows over the network instead of downloading the files.
        columns: Fields to add to each row: by field, the column to copy, or a template.
    """

    name: str
    subset: str | None = None
    split: str | None = None
    revision: str | None = None
    streaming: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _local(self) -> Path | None:
        path = Path(self.name)
        return path if path.exists() else None

    @cached_property
    def _commit(self) -> str | None:
        """The commit of the revision or, for local files, the revision as given."""
        if self._local is not None or COMMIT.fullmatch(self.revision or ""):
            return self.revision
        check_network()
        hub = import_extra("huggingface_hub", "hub")
        errors = import_extra("huggingface_hub.errors", "hub")
        page = f"{hub.constants.ENDPOINT}/datasets/{self.name}"
        try:
            api = hub.HfApi()
            info = api.dataset_info(self.name, revision=self.revision)
            if info.gated:
                api.auth_check(self.name, repo_type="dataset")
        except errors.GatedRepoError:
            remedy = f"Accept its conditions at {page}, then log in: hf auth login"
            raise DataMissing(f"The data set {self.name} on the Hub is gated.", remedy) from None
        except (errors.RepositoryNotFoundError, errors.HFValidationError):
            problem = f"There is no folder and no public data set {self.name!r}."
            remedy = "Check the name. For a private data set, log in: hf auth login"
            raise DataMissing(problem, remedy) from None
        except errors.RevisionNotFoundError:
            problem = f"The data set {self.name} has no revision {self.revision!r}."
            raise DataMissing(problem, f"Its revisions: {page}/tree/main") from None
        except Exception as error:  # those of the HTTP client depend on the library's version
            why = " ".join(str(error).split())[:160]
            remedy = "Check the network. A data set that is in the Hub's cache needs no network if "
            problem = f"There is no folder {self.name!r}, and {page} cannot be reached ({why})."
            raise DataMissing(problem, f"{remedy}task.revision is its commit.") from None
        return str(info.sha)

    @cached_property
    def _loaded(self) -> Any:
        """The data set, loaded by the library ``datasets``, without media columns."""
        library = import_extra("datasets", "hub")
        if not sys.stderr.isatty():
            library.disable_progress_bars()
        source: dict[str, Any] = {"path": self.name, "revision": self._commit}
        if self._local is not None:
            path = self._local.resolve()
            source = {"path": str(path)}
            if path.is_file():
                source = {"path": str(path.parent), "data_files": path.name}
        with self._clear_errors():
            subsets = library.get_dataset_config_names(**source)
            self._check("subset", self.subset, subsets)
            subset = self.subset or subsets[0]
            splits = library.get_dataset_split_names(config_name=subset, **source)
            self._check("split", self.split, splits, default="test")
            split = self.split or ("test" if "test" in splits else splits[0])
            part = "[" in split  # which cannot be streamed
            streaming = (self.streaming or self._local is not None) and not part
            loaded = library.load_dataset(name=subset, split=split, streaming=streaming, **source)
            media = [
                name
                for name, feature in (loaded.features or {}).items()
                if type(feature).__name__ in MEDIA
            ]
            return loaded.remove_columns(media)

    def _check(self, key: str, value: str | None, names: list[str], default: str = "") -> None:
        listed = ", ".join(map(str, names[:20]))
        if value is None and (len(names) == 1 or default in names):
            return
        if value is None or value.partition("[")[0] not in names:
            problem = f"The data set {self.name} has no {key} {value!r}."
            if value is None:
                problem = f"The data set {self.name} has several {key}s."
            raise ConfigError(problem, f"Set task.{key} to one of: {listed}.")

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, DataInvalid, DataMissing):
            raise
        except ConnectionError as error:
            why = " ".join(str(error).split())[:160]
            raise DataMissing(f"Cannot reach {self.name} ({why}).", "Check the network.") from None
        except Exception as error:  # the library and its readers raise errors of many kinds
            why = " ".join(str(error).split())[:300]
            raise DataInvalid(f"{self.name}: not readable as a data set ({why}).") from None

    @property
    def is_large(self) -> bool:
        """Whether the rows are streamed, or too many to keep in memory."""
        count = getattr(self._loaded, "num_rows", None)
        return count is None or count > MOST_KEPT

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (location, row) for each row, with JSON values, labels by name, and ``columns``."""
        loaded = self._loaded
        features = loaded.features or {}
        names = {
            key: feature.names for key, feature in features.items() if hasattr(feature, "names")
        }
        number = 0
        with self._clear_errors():
            for number, values in enumerate(loaded, start=1):
                where = f"{self.name}, row {number}"
                renamed = {key: values.get(column) for key, column in self.columns.items()}
                with reraise_as(DataInvalid, f"{where}: "):
                    to_json_types(renamed)  # refuses times in answers
                    row = to_json_types(values)
                for key, labels in names.items():
                    row[key] = None if row[key] in (None, -1) else labels[row[key]]
                for key, column in self.columns.items():
                    row[key] = self._value(column, row)
                with reraise_as(DataInvalid, f"{where}: "):
                    fields = read_fields(row)
                yield where, fields
        if not number:
            raise DataInvalid(f"{self.name}: the split has no rows.")

    def _value(self, column: str, row: Mapping[str, Any]) -> Any:
        if "{{" in column:
            return Template(column, "task.columns").render(row)
        if column not in row:
            problem = f"task.columns: the data set has no column {column!r}."
            raise ConfigError(problem, suggest_name(column, row))
        return row[column]

    def fingerprint(self) -> Mapping[str, str]:
        """Return the options that select the rows, and the commit or hash of the files."""
        columns = hashlib.sha256(msgspec.json.encode(sorted(self.columns.items()))).hexdigest()
        where = {"dataset": self.name, "columns_sha256": columns}
        where |= {"subset": self.subset or "", "split": self.split or ""}
        if self._local is None:
            return {**where, "revision": self._commit or ""}
        where["dataset"] = self._local.name
        try:
            return {**where, "dataset_sha256": _hash_of(self._local)}
        except OSError as error:
            raise unreadable_file_error(self._local, error) from None


def _hash_of(path: Path) -> str:
    """Return the hash of a file, or of all files in a folder except hidden ones."""
    if path.is_file():
        return sha256(path)
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\n{sha256(file)}\n".encode())
    return digest.hexdigest()


class HubTask(RowsTask):
    """A benchmark made from a data set on the Hugging Face Hub, or from a folder of its files.

    Args:
        dataset: OWNER/NAME on the Hub; or a folder or file: Parquet, Arrow, JSONL or CSV.
        subset: The data set's configuration, if it has several.
        split: The split (default: the only one, or test).
        revision: A commit, tag or branch of the data set; null for the main branch.
        columns: For the fields prompt, messages, target, criteria, id, cluster and gold: a column,
            as {target: answer}, or a template.
        streaming: Whether to read rows over the network instead of downloading the data set.
        prompt: A template of the user's message, with the row's columns; null if rows have prompts.
        system: A template of the system message.
        extract: How to find the answer in a reply: {regex: ...}, {number: last} or {json: key};
            null for the whole reply.
        checks: Checkers and judges by name, with options; one name alone needs no list.
        gold: A template of a correct answer, for shots and simulated runs (default: the target).
        groups: Columns by which to break down results.
        on_truncated: Whether truncated answers fail or are graded (fail, grade).
        feedback: A template of the message after an answer that failed, with the row's columns and
            the list of reasons; null for the harness's own wording.
        choices: Multiple choice over the column choices: {by: letter, letter_logprob or
            choice_logprob, shuffle: a seed}. The default is {by: letter} if there are choices and
            no prompt.
        user: The user whom a model plays after the first turn: {goal: a template, persona: a
            template, max_turns: N}.
    """

    def __init__(
        self,
        dataset: str,
        subset: str | None = None,
        split: str | None = None,
        revision: str | None = None,
        columns: dict[str, str] | None = None,
        streaming: bool = False,
        prompt: str | None = None,
        system: str | None = None,
        extract: dict[str, Any] | None = None,
        checks: list[Any] | str | None = None,
        gold: str | None = None,
        groups: list[str] | None = None,
        on_truncated: Literal["fail", "grade"] = "fail",
        feedback: str | None = None,
        choices: QuestionForm | None = None,
        user: dict[str, Any] | None = None,
        *,
        data: DataFolder,
        judges: Mapping[str, bool] | None = None,
        panels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(
            HubDataset(
                data.next_to_run_file(dataset), subset, split, revision, streaming, columns or {}
            ),
            data,
            prompt=prompt,
            system=system,
            extract=extract,
            checks=checks,
            gold=gold,
            groups=groups,
            on_truncated=on_truncated,
            feedback=feedback,
            choices=choices,
            user=user,
            judges=judges,
            panels=panels,
        )
