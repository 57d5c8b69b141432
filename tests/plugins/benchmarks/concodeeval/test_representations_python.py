"""The Python that is written runs, and means what the schema means."""

from typing import Any

import pydantic
import pytest

from harness.plugins.benchmarks.concodeeval.representations import render
from harness.plugins.builders.concodeeval import draw_instances, generate
from tests.plugins.benchmarks.concodeeval.readers import read

WITHOUT_A_WORD = {"format", "contains", "minContains", "maxContains", "uniqueItems"}
"""What pydantic carries in json_schema_extra, where it checks nothing."""

CLASS = "class Schema(RootModel):\n    root: "


def test_a_pattern_as_people_write_it() -> None:
    assert read(CLASS + 'str = Field(pattern="\\d")', "python") == {
        "type": "string",
        "pattern": "\\d",
    }


@pytest.mark.parametrize("vocabulary", ["paper", "extended"])
def test_pydantic_agrees(vocabulary: Any) -> None:
    """Our own code, run: valid instances pass, and what pydantic has a word for is refused."""
    schemas = list(generate(7, vocabulary=vocabulary, per_range=15))
    models: dict[str, Any] = {}
    for row in schemas:
        module: dict[str, Any] = {"__name__": "drawn"}
        exec(render(row.schema, "python"), module)
        models[row.id] = module["Schema"]
    for row in draw_instances(7, schemas, yes=400, no=500):
        model = models[row.schema_id]
        if row.label == "yes":
            model.model_validate(row.value, strict=True)
        elif row.keyword not in WITHOUT_A_WORD:
            with pytest.raises(pydantic.ValidationError):
                model.model_validate(row.value, strict=True)
