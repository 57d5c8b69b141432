from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.constraints import Asked, Feature, features, rejections


def test_the_features_of_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"minLength": {"type": "string", "format": "date"}},
        "required": ["format"],
        "const": {"pattern": 1},
        "anyOf": [{"$ref": "#/$defs/enum"}],
        "$defs": {"enum": {"maximum": 3}},
    }
    root, *found = features(schema)
    assert root == "root: object"
    assert found == sorted(found)
    keywords = {"$defs", "$ref", "anyOf", "const", "format", "maximum", "properties", "required"}
    assert set(found) == {*keywords, "type", "format: date"}


def test_rejections_are_counted_by_feature_and_other_failures_are_not() -> None:
    refused = "RequestRejected: 'format' is not permitted"
    found = rejections(
        [
            Asked("a", "json_schema", {"type": "string", "format": "date"}, refused),
            Asked("b", "json_schema", {"type": "string"}, None),
            Asked("c", "json_schema", {"type": "number", "minimum": 0}, None),
            Asked("d", "json_schema", {"type": "string", "minLength": 1}, "Overloaded: busy"),
            Asked("e", "regex", "a+", refused),
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


@given(json_values)
def test_whatever_was_sent_has_features(schema: object) -> None:
    assert features(schema)[0].startswith("root: ")


def test_deep_schemas_end() -> None:
    schema: dict[str, object] = {}
    for _ in range(5_000):
        schema = {"not": schema}
    assert features(schema)[1:] == ("not",)
