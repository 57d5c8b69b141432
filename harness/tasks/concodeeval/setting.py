"""What both of ConCodeEval's tasks are set to: data, representation, formats, prompt and mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError
from harness.scoring.validators import FORMATS, Format, Mode
from harness.tasks.concodeeval.asking import Asking
from harness.tasks.concodeeval.data import SchemaRow, read, refuse_broken
from harness.tasks.concodeeval.positions import Constraints
from harness.tasks.concodeeval.representations import Representation, Wording, render


class ShownSchema(NamedTuple):
    """A schema, as the prompt shows it, and where its constraints stand there."""

    row: SchemaRow
    text: str
    constraints: Constraints


class Setting:
    """The options that both tasks have, and what follows from them.

    Raises: ConfigError for formats that cannot be; DataMissing; DataInvalid.
    """

    def __init__(
        self,
        part: Literal["generation", "validation"],
        *,
        dataset: str,
        representation: Representation,
        outputs: Sequence[Format],
        prompt: str,
        wording: Wording | None,
        mode: Mode,
        data: DataFolder,
    ) -> None:
        if not outputs or len(set(outputs)) < len(outputs):
            given = ", ".join(outputs) or "none"
            raise ConfigError(
                f"task.outputs names each format once, and one at least (here: {given}).",
                f"Write some of [{', '.join(FORMATS)}].",
            )
        self.representation, self.outputs, self.mode = representation, outputs, mode
        self.asking = Asking(part, prompt, representation, data)
        self.benchmark = read(dataset, data)
        self._dataset = dataset
        self._wording: Wording = wording or ("paper" if prompt == "paper" else "corrected")
        refuse_broken(self.benchmark.schemas, mode)

    def schemas(self) -> Iterator[ShownSchema]:
        """Those of the data, in their order."""
        for row in self.benchmark.schemas:
            yield ShownSchema(
                row,
                render(row.schema, self.representation, wording=self._wording),
                Constraints.of(row.schema, self.representation, self._wording),
            )

    def groups(self, row: SchemaRow, output: Format) -> dict[str, str]:
        """The labels of an instance of a schema in a format."""
        return {
            "output": output,
            "representation": self.representation,
            "root": row.root,
            **({"range": row.range} if row.range else {}),
        }

    def fingerprint(self) -> Mapping[str, str]:
        """Data and prompt; the rest is in the run file."""
        return {
            "dataset": self._dataset,
            "dataset_sha256": self.benchmark.digest,
            "prompt_sha256": self.asking.sha256,
        }
