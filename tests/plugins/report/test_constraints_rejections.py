"""Which decoding constraints a provider rejected, by what they have."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.plugins.report.constraints import Feature, read_asked, rejections
from harness.scoring.validators.schemas import schema_features
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.analysis.conftest import Make


def test_the_features_of_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"minLength": {"type": "string", "format": "date"}},
        "required": ["format"],
        "const": {"pattern": 1},
        "anyOf": [{"$ref": "#/$defs/enum"}],
        "$defs": {"enum": {"maximum": 3}},
    }
    root, *found = schema_features(schema)
    assert root == "root: object"
    assert found == sorted(found)
    keywords = {"$defs", "$ref", "anyOf", "const", "format", "maximum", "properties", "required"}
    assert set(found) == {*keywords, "type", "format: date"}


def test_rejections_are_counted_by_feature_and_other_failures_are_not() -> None:
    refused = "RequestRejected: 'format' is not permitted"
    found = rejections(
        [
            ("json_schema", {"type": "string", "format": "date"}, refused),
            ("json_schema", {"type": "string"}, None),
            ("json_schema", {"type": "number", "minimum": 0}, None),
            ("json_schema", {"type": "string", "minLength": 1}, "Overloaded: busy"),
            ("regex", "a+", refused),
        ]
    )
    assert (found.n, found.n_rejected, found.n_failed) == (4, 2, 1)
    assert found.messages == {"'format' is not permitted": 2}
    assert found.features[:3] == [
        Feature("format", 1, 1),
        Feature("format: date", 1, 1),
        Feature("regex", 1, 1),
    ]
    shares = {one.name: (one.n, one.n_rejected) for one in found.features}
    assert shares["type"] == (3, 1)
    assert shares["root: string"] == (2, 1)
    assert "minLength" not in shares


def test_a_run_without_constraints_has_none() -> None:
    found = rejections([])
    assert (found.n, found.features, found.messages) == (0, [], {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=40)
@given(json_values)
def test_whatever_was_sent_has_features(schema: object) -> None:
    assert schema_features(schema)[0].startswith("root: ")


def test_deep_schemas_end() -> None:
    schema: dict[str, object] = {}
    for _ in range(5_000):
        schema = {"not": schema}
    assert schema_features(schema)[1:] == ("not",)


def test_the_constraint_of_an_instance_counts_once(make: Make, tmp_path: Path) -> None:
    """Of two instances with two samples and rounds each, one has a constraint that is rejected."""
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for name, error in (("good", None), ("bad", "RequestRejected: no regex")):
            for sample in range(2):
                for round_ in (1, 2):
                    attempt = make(
                        name,
                        None if error else False,
                        sample=sample,
                        round=round_,
                        request={"decoding": {"constraint": {"regex": name}}},
                        error=error,
                    )
                    writer.append(attempt)
    counts = rejections(read_asked(AttemptIndex(path)))
    assert (counts.n, counts.n_rejected, counts.n_failed) == (2, 1, 0)
    assert counts.features == [Feature("regex", 2, 1)]
    assert counts.messages == {"no regex": 1}
