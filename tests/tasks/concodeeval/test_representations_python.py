"""Python is read and not run; what is written does run, and means what the schema means."""

from pathlib import Path
from typing import Any

import pydantic
import pytest

from harness.builders.concodeeval.instances import instances
from harness.builders.concodeeval.schemas import generate
from harness.errors import DataInvalid
from harness.tasks.concodeeval.representations import read, render

WITHOUT_A_WORD = {"format", "contains", "minContains", "maxContains", "uniqueItems"}
"""What pydantic carries in json_schema_extra, where it checks nothing."""

CLASS = "class Schema(RootModel):\n    root: "


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.remove('{victim}')",
        "open('{victim}', 'w')",
        CLASS + "float = open('{victim}', 'w')",
        CLASS + "float = Field(ge=open('{victim}', 'w'))",
        CLASS + "Annotated[float, open('{victim}', 'w')]",
        CLASS + "open('{victim}', 'w')",
        CLASS + "list[open('{victim}', 'w')]",
        CLASS + "float = Field(json_schema_extra={{'a': open('{victim}', 'w')}})",
        CLASS + "float = Field(json_schema_extra={{**open('{victim}', 'w')}})",
        CLASS + "float = Field(**open('{victim}', 'w'))",
        CLASS + "float\n    open('{victim}', 'w')",
        "class Schema(open('{victim}', 'w')):\n    pass",
        "class Schema(BaseModel, metaclass=open('{victim}', 'w')):\n    pass",
        "@open('{victim}', 'w')\nclass Schema(BaseModel):\n    pass",
        "class Schema(BaseModel):\n    def __init__(self): open('{victim}', 'w')",
        "from os import remove\nclass Schema(BaseModel):\n    pass",
        "class Schema(BaseModel):\n    model_config = open('{victim}', 'w')",
    ],
)
def test_hostile_code_does_nothing(code: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("here")
    with pytest.raises(DataInvalid, match="not understood: "):
        read(code.format(victim=victim), "python")
    assert victim.read_text() == "here"


@pytest.mark.parametrize(
    "code",
    [
        "class Schema(BaseModel):\n    again: Schema",
        "\n".join(
            ["class A0(BaseModel):\n    a: str"]
            + [f"class A{n}(BaseModel):\n    a: A{n - 1}\n    b: A{n - 1}" for n in range(1, 60)]
        ),
        CLASS + "list[" * 5_000 + "int" + "]" * 5_000,
        CLASS + "list[" * 90 + "int" + "]" * 90,
        CLASS + "float = Field(ge=1e999)",
        CLASS + "float = Field(ge=1j)",
        CLASS + "float = Field(nonsense=1)",
        CLASS + "Literal[1, 'a']",
        CLASS + "float = Field(ge=" + "-" * 100_000 + "1)",
        "class Schema(BaseModel):\n    a: str\n    a: int",
        "x" * (1 << 21),
    ],
    ids=range(11),
)
def test_code_that_is_no_schema(code: str) -> None:
    with pytest.raises(DataInvalid):
        read(code, "python")


def test_a_pattern_as_people_write_it() -> None:
    assert read(CLASS + 'str = Field(pattern="\\d")', "python") == {
        "type": "string",
        "pattern": "\\d",
    }


def test_the_line_is_named() -> None:
    with pytest.raises(DataInvalid, match="line 2 has a Name"):
        read("class Schema(BaseModel):\n    a: Unknown", "python")


@pytest.mark.parametrize("vocabulary", ["paper", "extended"])
def test_pydantic_agrees(vocabulary: Any) -> None:
    """Our own code, run: valid instances pass, and what pydantic has a word for is refused."""
    schemas = list(generate(7, vocabulary=vocabulary, per_range=15))
    models: dict[str, Any] = {}
    for row in schemas:
        module: dict[str, Any] = {"__name__": "drawn"}
        exec(render(row.schema, "python"), module)
        models[row.id] = module["Schema"]
    for row in instances(7, schemas, yes=400, no=500):
        model = models[row.schema_id]
        if row.label == "yes":
            model.model_validate(row.value, strict=True)
        elif row.keyword not in WITHOUT_A_WORD:
            with pytest.raises(pydantic.ValidationError):
                model.model_validate(row.value, strict=True)
