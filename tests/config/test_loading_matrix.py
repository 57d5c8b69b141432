"""A matrix is the variants of all combinations."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.loading import expand_variants, load_variants
from harness.config.run_file import expand_matrix
from harness.config.yaml_text import parse_yaml
from harness.engine.resolving import parse_model_name
from harness.errors import ConfigError

RUN = "task: {name: collie}\nmodel: {backend: simulated}\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(RUN + text)
    return path


def test_every_combination_is_a_run(tmp_path: Path) -> None:
    text = (
        "matrix:\n  model.accuracy: [0.1, 0.9]\n"
        "  rounds: {one: {}, four: {rounds.max: 4, rounds.stop_on_pass: false}}\n"
    )
    runs = load_variants(written(tmp_path, text), ["samples=2"])
    assert list(runs) == ["0.1.one", "0.1.four", "0.9.one", "0.9.four"]
    four = runs["0.9.four"]
    assert four.model.options["accuracy"] == 0.9
    assert (four.rounds.max, four.rounds.stop_on_pass, four.samples) == (4, False, 2)
    assert not four.matrix


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.lists(st.integers(), min_size=1, max_size=9, unique=True)
    )
)
def test_as_many_as_the_product_and_each_its_own(matrix: dict[str, list[int]]) -> None:
    made = expand_matrix(matrix)
    wanted = 1
    for values in matrix.values():
        wanted *= len(values)
    assert len(made) == (wanted if matrix else 0)
    assert len({tuple(changes.items()) for changes in made.values()}) == len(made)
    assert all(list(changes) == list(matrix) for changes in made.values())


def test_names_of_values() -> None:
    assert list(expand_matrix({"model.name": ["Qwen/Qwen3-8B", None, True, 0.5]})) == [
        *("Qwen-Qwen3-8B", "null", "true", "0.5"),
    ]
    assert expand_matrix({"task.prompt": {"a": "{{ x }}", "b": {"samples": 2}}}) == {
        "a": {"task.prompt": "{{ x }}"},
        "b": {"samples": 2},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("matrix: {samples: []}", "matrix.samples is empty"),
        ("matrix: {samples: [1, 1]}", "has a value twice"),
        ("matrix: {decoding.stop: [[a], [b]]}", "name it, matrix"),
        ("matrix: {samples: [1, 2]}\nvariants: {a: {}}", "cannot be combined"),
        ("matrix: {model.name: ['a b']}", "cannot name a run"),
        ("matrix: {x: {a: {matrix.y: 1}}}", "sets variants or matrix"),
        ("matrix: {limit: [%s], seed: [%s]}" % ((",".join(map(str, range(1, 40))),) * 2), "more"),
        ("matrix: {sampels: [1, 2]}", "sampels"),
        (
            "matrix: {model.name: [gpt-4, gpt-4.1], decoding.temperature: [1.2, 2]}",
            r"'gpt-4\.1\.2' twice",
        ),
        ("matrix: {samples: [1, 2], x: {a: {samples: 3}}}", "samples by two axes"),
    ],
)
def test_what_makes_no_runs_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_variants(written(tmp_path, text + "\n"))


def test_an_axis_is_not_overridden(tmp_path: Path) -> None:
    path = written(tmp_path, "matrix: {samples: [1, 2], x: {a: {rounds.max: 2}}}\n")
    for override in ("samples=3", "rounds.max=4"):
        with pytest.raises(ConfigError, match="so an override has no effect"):
            load_variants(path, [override])


def test_values_with_names_may_be_sections() -> None:
    local = {"backend": "openai", "base_url": "http://localhost/v1", "name": "x"}
    assert expand_matrix({"model": {"local": local, "other": {"model.backend": "simulated"}}}) == {
        "local": {"model": local},
        "other": {"model.backend": "simulated"},
    }
    hot = {"decoding": {"hot": {"temperature": 1}, "as_is": {}}}
    assert expand_matrix(hot) == {"hot": {"decoding": {"temperature": 1}}, "as_is": {}}
    few = {"n": 3, "select": "random", "seed": 1}  # a run file has a seed, too
    assert expand_matrix({"task.shots": {"zero": 0, "few": few}}) == {
        "zero": {"task.shots": 0},
        "few": {"task.shots": few},
    }


MODELS = "{weak: {model: {backend: simulated, accuracy: 0.2}}, strong: {model.backend: simulated}}"


def test_models_of_variants_need_no_other(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"task: {{name: collie}}\nvariants: {MODELS}\n")
    runs = load_variants(file, ["model.gain=0.5", "model.price.input=1", "model.price.output=2"])
    assert [run.model.options.get("accuracy") for run in runs.values()] == [0.2, None]
    assert [run.model.options["gain"] for run in runs.values()] == [0.5, 0.5]
    for lost in ("model.accuracy=1", "model={backend: openai}"):
        with pytest.raises(ConfigError, match="an override has no effect"):
            load_variants(file, [lost])
    file.write_text("task: {name: collie}\nvariants: {a: {model: {backend: simulated}}, b: {}}\n")
    with pytest.raises(ConfigError, match="variant 'b': model is missing"):
        load_variants(file)


HERE = "{backend: openai, name: m1, base_url: http://localhost/v1}"


@pytest.mark.parametrize(
    "variants",
    [
        "variants: {a: {}, b: {model: openai/m2}}",
        "variants: {a: {}, b: {model: {backend: openai, name: m2}}}",
        "matrix: {model: [openai/m2, openai/m5]}",
        "matrix: {model: [openai/o3-pro]}",
    ],
)
def test_a_variants_model_does_not_leave_the_files_server(tmp_path: Path, variants: str) -> None:
    file = tmp_path / "run.yaml"
    text = f"task: {{name: collie}}\nmodel: {HERE}\n{variants}\n"
    with pytest.raises(ConfigError, match="sends its calls to http://localhost/v1") as raised:
        expand_variants(parse_yaml(text), str(file), model_section=parse_model_name)
    assert "matrix: {model.name: [A, B]}" in raised.value.remedy
    runs = expand_variants(
        parse_yaml(text), "", ["model.base_url=http://127.0.0.1/v1"], model_section=parse_model_name
    ).values()
    assert {run.model.options["base_url"] for run in runs} == {"http://127.0.0.1/v1"}


def test_models_of_other_providers_and_of_the_same_server_run_side_by_side() -> None:
    for variants in ("matrix: {model.name: [m2, m5]}", "matrix: {model: [simulated, ollama/m2]}"):
        text = f"task: {{name: collie}}\nmodel: {HERE}\n{variants}\n"
        assert len(expand_variants(parse_yaml(text), "", model_section=parse_model_name)) == 2
    own = "{backend: openai, name: m5, base_url: null}"
    text = f"task: {{name: collie}}\nmodel: {HERE}\nvariants: {{a: {{}}, b: {{model: {own}}}}}"
    assert expand_variants(parse_yaml(text), "")["b"].model.options == {"base_url": None}


def test_an_address_alone_is_no_model() -> None:
    text = "task: {name: collie}\nmodel: {base_url: http://localhost/v1}\n"
    text += "matrix: {model: [openai/m2]}\n"
    with pytest.raises(ConfigError, match=r"model\.backend is missing") as raised:
        expand_variants(parse_yaml(text), "", model_section=parse_model_name)
    assert "matrix: {model.name: [A, B]}" in raised.value.remedy
