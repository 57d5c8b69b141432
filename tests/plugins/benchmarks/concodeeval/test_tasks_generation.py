import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.engine.assessment import assess
from harness.errors import ConfigError, DataInvalid, DataMissing, Unparseable
from harness.plugin_loader import kind
from harness.plugins.benchmarks.concodeeval.documents import render
from harness.plugins.benchmarks.concodeeval.representations import REPRESENTATIONS
from harness.plugins.benchmarks.concodeeval.setting import BUILTIN
from harness.plugins.benchmarks.concodeeval.tasks import ConCodeEvalGeneration, GenerationItem
from harness.records import Instance, Reply, Score

NOWHERE = DataFolder(Path("nowhere"))
ROWS = [json.loads(line) for line in (BUILTIN / "validation.jsonl").read_text().splitlines()]
PAPER_HAS = {row["schema_id"] for row in ROWS if row["label"] == row["paper_label"] == "yes"}
NO_SAMPLE = {
    "valid": False,
    "no_block": True,
    "unparseable": False,
    "invalid_sample": True,
    "root_type_violated": False,
}


def task(data: DataFolder = NOWHERE, **options: Any) -> ConCodeEvalGeneration:
    built: ConCodeEvalGeneration = kind("tasks").build("concodeeval_generation", options, data=data)
    return built


def values(scores: Mapping[str, Score]) -> dict[str, Any]:
    return {name: score.value for name, score in scores.items()}


def of_schema(schema: Any, tmp_path: Path, **options: Any) -> tuple[ConCodeEvalGeneration, Any]:
    path = tmp_path / "schemas.jsonl"
    path.write_text(json.dumps({"id": "one", "schema": schema}) + "\n")
    built = task(dataset=str(path), **options)
    return built, {instance.data.output: instance for instance in built.instances()}


@pytest.fixture(params=["strict", "paper"])
def built(request: pytest.FixtureRequest) -> ConCodeEvalGeneration:
    return task(mode=request.param)


def test_gold_passes_and_a_wrong_answer_fails(built: ConCodeEvalGeneration) -> None:
    golds = 0
    for instance in built.instances():
        gold = built.reference(instance)
        if gold is None:
            # To the authors all XML is an object, and 17.5 no multiple of 0.7.
            assert built.mode == "paper"
            assert instance.data.output == "xml" or instance.data.row.id not in PAPER_HAS
            continue
        golds += instance.data.output != "xml" or built.mode == "strict"
        found = assess(built, instance, Reply(gold, "stop"))
        assert (found.outcome, found.passed) == ("ok", True), gold
        assert values(found.scores) == {name: name == "valid" for name in NO_SAMPLE}
        assert all(one["passed"] for one in found.scores["valid"].details["constraints"])
        if built.mode == "paper" and instance.data.output == "xml":
            continue  # an object that asks for nothing takes all
        other = 5 if instance.groups["root"] == "array" else [[]]
        answer = f"```\n{render(other, instance.data.output)}\n```"
        wrong = assess(built, instance, Reply(answer, "stop"))
        assert (wrong.outcome, wrong.passed) == ("ok", False)
        assert wrong.scores["root_type_violated"].value is True
    assert golds == 186 if built.mode == "strict" else golds == 2 * len(PAPER_HAS)


def test_instances_are_schemas_by_formats_and_pair_across_representations() -> None:
    ids = set()
    for representation in REPRESENTATIONS:
        built = task(representation=representation)
        found = list(built.instances())
        ids.add(tuple(instance.id for instance in found))
        assert len(found) == 186
        assert {instance.groups["representation"] for instance in found} == {representation}
        assert found[0].groups == {
            "output": "json",
            "representation": representation,
            "root": "number",
            "range": "0-10",
        }
        assert len({instance.cluster for instance in found}) == 62
        for instance in found:
            constraints = instance.data.constraints.found.values()
            assert all("schema_third" in one["groups"] for one in constraints)
    assert len(ids) == 1


def test_what_cannot_be_read_is_told_apart(tmp_path: Path) -> None:
    built, instances = of_schema({"type": "number", "minimum": 3}, tmp_path)
    instance: Instance[GenerationItem] = instances["json"]
    assert values(built.score_of_no_answer(instance)) == NO_SAMPLE
    for text, expected in {
        "5": NO_SAMPLE,
        "```\nfive\n```": {**NO_SAMPLE, "no_block": False, "unparseable": True},
    }.items():
        with pytest.raises(Unparseable) as raised:
            built.score(instance, text)
        assert values(raised.value.scores) == expected
        found = assess(built, instance, Reply(text, "stop"))
        assert (found.outcome, found.passed, values(found.scores)) == (
            "unparseable",
            False,
            expected,
        )
    refused = assess(built, instance, Reply("", "content_filter"))
    assert (refused.outcome, values(refused.scores)) == ("refused", NO_SAMPLE)


def test_a_sample_that_cannot_be_checked_is_not_called_wrong(tmp_path: Path) -> None:
    built, instances = of_schema({"type": "string", "pattern": r"^((a|a)+)+\1$"}, tmp_path)
    scores = built.score(instances["json"], f'```\n"{"a" * 60}!"\n```')
    assert scores["valid"].value is None
    assert built.feedback(instances["json"], "", scores).startswith("The sample could not be")


REPLIES = ["5\n```", "5", "json\n5\n```\nIt is five.", "```json\n5\n```", "So:\n```\n5\n```\n."]


@pytest.mark.parametrize("text", REPLIES)
def test_the_papers_prompt_opens_the_block_that_is_read(text: str, tmp_path: Path) -> None:
    built, instances = of_schema({"type": "number"}, tmp_path, prompt="paper")
    assert built.score(instances["json"], text)["valid"].passed is True


def test_a_runs_folder_records_the_extraction_that_the_prompt_chooses() -> None:
    chosen = [
        kind("tasks").validate_options("concodeeval_generation", options).model_dump()["extraction"]
        for options in ({}, {"prompt": "paper"}, {"prompt": "paper", "extraction": "json"})
    ]
    assert chosen == ["fence", "open_fence", "json"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prompt": "paper", "extraction": "fence"}, "opens a block.*Set .* to open_fence"),
        ({"prompt": "paper", "extraction": "last_fence"}, "'last_fence' finds no sample"),
        ({"prompt": "paper", "extraction": "whole"}, "'whole' finds no sample"),
        ({"prompt": "paper", "representation": "natural_language", "extraction": "fence"}, "opens"),
        ({"extraction": "tags:answer"}, "asks for a block.*Set .* to fence"),
        ({"prompt": "paper"}, ""),
        ({"prompt": "paper", "extraction": "json"}, ""),
        ({"extraction": "last_fence"}, ""),
        ({"extraction": "whole", "outputs": ["json"]}, ""),
    ],
)
def test_an_extraction_that_does_not_fit_the_prompt_is_a_warning(
    options: dict[str, Any], said: str
) -> None:
    found = task(**options).prompt_errors()
    assert len(found) == bool(said)
    assert re.search(said, "".join(found))


def test_ones_own_prompt_that_opens_a_block_is_checked_too(tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text("{{ schema }}, as <answer>")
    assert task(prompt=str(own), extraction="tags:answer").prompt_errors() == []
    own.write_text("{{ schema }}\n```json")
    assert "opens a block" in task(prompt=str(own)).prompt_errors()[0]


@pytest.mark.parametrize(
    ("text", "kind", "wrong_root"),
    [
        ('"5"', "type", True),
        ("true", "type", True),
        ("2", "minimum", False),
        ("2.5", "minimum", False),
        ("[5]", "type", True),
    ],
)
def test_violations_and_the_root_type(
    text: str, kind: str, wrong_root: bool, tmp_path: Path
) -> None:
    built, instances = of_schema({"type": "number", "minimum": 3}, tmp_path)
    scores = built.score(instances["json"], f"```json\n{text}\n```")
    assert scores["valid"].passed is False
    assert scores["root_type_violated"].value is wrong_root
    broken = [one for one in scores["valid"].details["constraints"] if not one["passed"]]
    assert [one["kind"] for one in broken] == [kind]
    assert broken[0]["groups"]["output_third"] == "whole"
    assert scores["valid"].reason in built.feedback(instances["json"], text, scores)


def test_an_integer_is_of_the_root_type_number_and_a_float_of_integer(tmp_path: Path) -> None:
    built, instances = of_schema({"type": "integer"}, tmp_path)
    scores = built.score(instances["json"], "```\n2.5\n```")
    assert (scores["valid"].passed, scores["root_type_violated"].value) == (False, False)


def test_the_thirds_of_schema_and_sample(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "maxLength": 3} for name in names},
        "required": names,
    }
    built, instances = of_schema(schema, tmp_path, representation="json")
    sample = {name: "long text" if name in "af" else "abc" for name in names}
    for output, text in {
        "json": json.dumps(sample),
        "yaml": "\n".join(f"{name}: {value}" for name, value in sample.items()),
        "xml": "".join(
            ["<all>", *(f"<{name}>{value}</{name}>" for name, value in sample.items()), "</all>"]
        ),
    }.items():
        scores = built.score(instances[output], f"```\n{text}\n```")
        told = {one["constraint"]: one for one in scores["valid"].details["constraints"]}
        broken = {name: one["groups"] for name, one in told.items() if not one["passed"]}
        assert broken == {
            "/properties/a/maxLength 3": {"schema_third": "first", "output_third": "first"},
            "/properties/f/maxLength 3": {"schema_third": "last", "output_third": "last"},
        }
        assert told["/required ['a', 'b', 'c', 'd', 'e', 'f']"]["groups"] == {
            "schema_third": "last"
        }
        assert len(told) == 1 + 2 * 6 + 1  # properties is no constraint of its own


def test_modes_differ_where_the_authors_code_does(tmp_path: Path) -> None:
    verdicts = {}
    for mode in ("strict", "paper"):
        for name, schema, text in [
            ("format", {"type": "string", "format": "date"}, '"30 February"'),
            ("multipleOf", {"type": "number", "multipleOf": 0.1}, "0.3"),
        ]:
            built, instances = of_schema(schema, tmp_path, mode=mode)
            score = built.score(instances["json"], f"```\n{text}\n```")["valid"]
            verdicts[name, mode] = score.passed
        built, instances = of_schema({"type": "number"}, tmp_path, mode=mode)
        scores = built.score(instances["xml"], "```\n<all>5</all>\n```")
        verdicts["xml", mode] = scores["valid"].passed
    assert verdicts == {
        ("format", "strict"): False,
        ("format", "paper"): True,
        ("multipleOf", "strict"): True,
        ("multipleOf", "paper"): False,
        ("xml", "strict"): True,
        ("xml", "paper"): False,
    }


def test_the_prompts() -> None:
    built = task(representation="yaml", outputs=["xml"])
    [message] = built.messages(next(built.instances()), ())
    assert message.content == (
        "Write one sample in XML that obeys every constraint of this schema, which is written in "
        "YAML:\n\n<schema>\nmultipleOf: 8.48\ntype: number\n</schema>\n\nThe root element is "
        "<all>. A member of an object is an element of its name, an item of an array is an "
        "<item>.\n\nAnswer with the sample alone, in one block between ``` and ```."
    )


def test_the_recorded_frames_byte_for_byte(data_dir: Path) -> None:
    recorded = json.loads((data_dir / "concodeeval/prompts.json").read_text("utf-8"))
    data = DataFolder(data_dir)
    built = task(data, dataset="builtin", prompt="paper", representation="json")
    instances = [one for one in built.instances() if one.data.output == "yaml"]
    system, user = built.messages(instances[0], ())
    frame = recorded["Task_1_inference.py:prompt"]
    filled = frame.format(input_repr="JSON", output_repr="YAML", schema=instances[0].data.text)
    header = "<|start_header_id|>{}<|end_header_id|>\n"
    expected = (
        "\n<|begin_of_text|>" + header.format("system") + system.content + "\n<|eot_id|>"
        + header.format("user") + "\n" + user.content + "\n<|eot_id|>"
        + header.format("assistant") + "\n"
    )  # fmt: skip
    assert expected.strip() == filled.strip()
    few = built.messages(instances[0], instances[1:3])
    examples = {}
    for number, shot in enumerate(instances[1:3], start=1):
        gold = built.reference(shot) or ""
        examples[f"schema_ex_{number}"] = shot.data.text
        examples[f"sample_ex_{number}"] = gold.removeprefix("```\n").removesuffix("\n```")
    filled = recorded["Task_1_few_shot.py:few_shot_prompt"].format(
        input_repr="JSON", output_repr="YAML", schema=instances[0].data.text, **examples
    )
    assert few[0].content.strip() == filled.strip()


def test_the_authors_prompt_without_a_system_message(data_dir: Path) -> None:
    recorded = json.loads((data_dir / "concodeeval/prompts.json").read_text("utf-8"))
    built = task(prompt="plain", outputs=["yaml"])
    instance = next(built.instances())
    (user,) = built.messages(instance, ())
    frame = recorded["BAM_inference.py:prompt"]
    filled = frame.format(input_repr="JSON", output_repr="YAML", schema=instance.data.text)
    assert user.content.strip() == filled.strip()
    assert built.prompt_errors() == []
    assert built.score(instance, f"{built.reference(instance)}")["valid"].passed
    (few,) = built.messages(instance, [instance])
    assert "demonstrating the same" in few.content


def test_the_recorded_schemas_and_their_english_prompts(data_dir: Path) -> None:
    path = data_dir / "concodeeval/scalar_schemas.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    built = task(
        DataFolder(data_dir),
        dataset="recorded",
        representation="natural_language",
        prompt="paper",
        outputs=["json"],
    )
    found = list(built.instances())
    assert len(found) == 300
    for instance, row in zip(found, rows, strict=True):
        [message] = built.messages(instance, ())
        assert message.content == row["nl_prompt"]
        assert built.reference(instance) is None
    assert len({instance.cluster for instance in found}) == 300 - 48


def test_the_recorded_outputs_of_codellama(data_dir: Path, tmp_path: Path) -> None:
    path = data_dir / "concodeeval/codellama7b_outputs.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    schemas = tmp_path / "schemas.jsonl"
    schemas.write_text(
        "".join(
            json.dumps({"id": f"{n}", "schema": r["schema"]}) + "\n" for n, r in enumerate(rows)
        )
    )
    built = task(dataset=str(schemas), mode="paper", outputs=["json"], extraction="whole")
    wrong_roots = 0
    for instance, row in zip(built.instances(), rows, strict=True):
        if not row["parsed"]:
            with pytest.raises(Unparseable):
                built.score(instance, row["output_text"])
            continue
        scores = built.score(instance, row["output_text"])
        expected = {error.partition(":")[0] for error in row["draft7_errors"]}
        assert set(scores["valid"].details.get("keywords", {})) == expected
        assert scores["root_type_violated"].value is row["recomputed_root_type_violation"]
        wrong_roots += bool(scores["root_type_violated"].value)
    assert wrong_roots > 0


def test_the_english_of_objects_counts_as_a_prompt(tmp_path: Path) -> None:
    hashes = {
        root: {
            of_schema({"type": root}, tmp_path, representation="natural_language", wording=wording)[
                0
            ].fingerprint()["prompt_sha256"]
            for wording in ("paper", "corrected")
        }
        for root in ("object", "number")
    }
    assert {root: len(found) for root, found in hashes.items()} == {"object": 2, "number": 1}


def test_a_shot_that_is_right_here_too_gives_it_away(tmp_path: Path) -> None:
    built = task(outputs=["json"])
    instances = {one.data.row.id: one for one in built.instances()}
    anything = instances["number_0_10_i_1"]  # {"type": "number"}
    assert anything.data.row.schema == {"type": "number"}
    numbers = [one for one in instances.values() if one.data.row.root == "number"]
    texts = [one for one in instances.values() if one.data.row.root == "string"]
    assert all(built.leaks(anything, one) for one in numbers)
    assert not any(built.leaks(anything, one) for one in texts)


def test_decoding_is_held_to_the_schema_where_json_alone_is_wanted() -> None:
    built = task(outputs=["json"], extraction="whole")
    assert built.constraint_kind == "json_schema"
    instance = next(built.instances())
    assert built.constraint(instance).json_schema == instance.data.row.schema
    with pytest.raises(ConfigError, match=r"Set task\.outputs to \[json\]"):
        task().constraint_kind  # noqa: B018
    with pytest.raises(ConfigError, match=r"task\.extraction to whole"):
        task(outputs=["json"]).constraint_kind  # noqa: B018


def test_ones_own_prompt(tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text(
        "{% for shot in shots %}{{ shot.sample }} | {% endfor %}{{ input }} to {{ output }}"
    )
    built = task(prompt=str(own), outputs=["json"])
    first, second, *_ = built.instances()
    assert [message.content for message in built.messages(first, ())] == ["JSON to JSON"]
    assert "| JSON to JSON" in built.messages(first, [second])[0].content
    own.write_text("{{ sample }}")
    with pytest.raises(ConfigError, match="no field 'sample'"):
        task(prompt=str(own))
    own.write_text("{% for %}")
    with pytest.raises(ConfigError, match=r"task\.prompt"):
        task(prompt=str(own))
    with pytest.raises(DataMissing):
        task(prompt=str(tmp_path / "none.jinja"))
    with pytest.raises(ConfigError, match="no place for shots"):
        task(outputs=["json"]).messages(first, [second])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"id": "a"}], r"item 1: 'schema' is missing"),
        ([{"schema": {}}], r"item 1: .*id"),
        ([{"id": "a", "schema": {}}, {"id": "a", "schema": {}}], "'a' occurs twice"),
        ([{"id": "a", "schema": {"type": "nubmer"}}], "The schema 'a'"),
        ([{"id": "a", "schema": {"$ref": "http://localhost/"}}], "The schema 'a'"),
        ([], "contains no items"),
    ],
)
def test_broken_schemas_are_named_before_any_call(
    lines: list[Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "schemas.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataInvalid, match=said):
        task(dataset=str(path))


def test_options_that_cannot_be() -> None:
    for options in ({"outputs": []}, {"outputs": ["json", "json"]}):
        with pytest.raises(ConfigError, match=r"task\.outputs"):
            task(**options)
    with pytest.raises(ConfigError):
        task(representation="jsno")
    with pytest.raises(DataMissing, match=r"harness docs concodeeval. says where"):
        task(dataset="recorded")


def test_the_wrong_answers_of_simulated_runs_are_wrong_in_many_ways(
    built: ConCodeEvalGeneration,
) -> None:
    outcomes: Counter[str] = Counter()
    for instance in built.instances():
        wrong = built.wrong_answer(instance)
        if wrong is None:
            outcomes["none"] += 1
            continue
        found = assess(built, instance, Reply(wrong, "stop"))
        assert found.passed is False
        outcomes[found.outcome] += 1
    assert min(outcomes[kind] for kind in ("none", "ok", "unparseable")) > 10


@pytest.mark.parametrize("mode", ["strict", "paper"])
@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#/definitions/none"}, {"pattern": "[a-z"}, {"type": "strin"}, {"minLength": "a"}],
)
def test_what_an_engine_would_find_later_is_refused_before_any_call(
    schema: dict[str, Any], mode: str, tmp_path: Path
) -> None:
    with pytest.raises(DataInvalid, match="The schema 'one'"):
        of_schema(schema, tmp_path, mode=mode)
