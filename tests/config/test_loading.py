import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.loading import load_variants, parse_override, set_key
from harness.config.run_file import RunFile
from harness.config.validation import validate
from harness.config.yaml_text import read_mapping
from harness.errors import ConfigError

TINY = "task: {name: collie}\nmodel: {backend: simulated, name: m}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.yaml"


def loaded(file: Path, text: str | bytes, *overrides: str) -> dict[str, RunFile]:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_variants(file, overrides)


def refused(file: Path, text: str | bytes, *overrides: str) -> str:
    """The message, after what holds for each: one line, the file named, no secret."""
    with pytest.raises(ConfigError) as caught:
        loaded(file, text, *overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert "SECRET" not in message
    assert len(message) < 600
    if not overrides:
        assert message.startswith(str(file))
    return message.removeprefix(str(file))


def test_a_file_without_variants_is_one_run_without_a_name(file: Path) -> None:
    runs = loaded(file, TINY + "samples: 3\n")
    assert list(runs) == [""]
    assert runs[""].samples == 3


# What is not a run file at all


BOMB = "decoding:\n  extra:\n    a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"    {name}: &{name} [{','.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty. It needs at least 'task:' and 'model:'."),
        ("# only a comment\n", "is empty. It needs at least"),
        ("null\n", "is empty."),
        ("- a\n- b\n", "is not a run file. It needs at least"),
        ("hello\n", "is not a run file."),
        ("42\n", "is not a run file."),
    ],
)
def test_a_file_that_holds_no_mapping(file: Path, text: str, problem: str) -> None:
    assert refused(file, text).strip().startswith(problem)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00\x01", b"\x89PNG\r\n", b"\x00\x01\x02", b"a: \x07"]
)
def test_a_file_that_is_not_text(file: Path, content: bytes) -> None:
    assert " is not a text file" in refused(file, content)


def test_a_byte_order_mark_is_no_content(file: Path) -> None:
    assert loaded(file, "\ufeff" + TINY)


def test_a_missing_file_names_its_nearest_sibling(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").touch()
    (tmp_path / "other.yml").touch()
    with pytest.raises(ConfigError, match=r"No such file.*Did you mean '.*/quickstart\.yaml'"):
        load_variants(tmp_path / "quikstart.yaml")
    with pytest.raises(ConfigError, match=r"Did you mean '.*/quickstart\.yaml'"):
        load_variants(tmp_path / "quickstart")
    with pytest.raises(ConfigError, match=r"Did you mean '.*/other\.yml'"):
        load_variants(tmp_path / "other.yaml")


@pytest.mark.parametrize("name", ["nowhere/run.yaml", "a" * 300 + ".yaml"])
def test_a_missing_file_without_siblings_says_check_the_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="Check the path"):
        load_variants(tmp_path / name)


def test_a_common_suffix_makes_no_name_similar(tmp_path: Path) -> None:
    (tmp_path / "k9.yaml").touch()
    with pytest.raises(ConfigError, match=r"No such file or directory\. Valid names: k9\.yaml"):
        load_variants(tmp_path / "nope.yaml")


def test_a_folder_names_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").touch()
    with pytest.raises(ConfigError, match=r"Is a directory.*Valid names: b\.yaml"):
        load_variants(tmp_path)


# YAML


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task:\n\tname: x\n", ", line 2: found character '\\t' that cannot start"),
        (TINY + "samples: [1\n", ", line 4: "),
        (TINY + "x: *nope\n", ", line 3: found undefined alias"),
        (TINY + "---\n" + TINY, ", line 3: but found another document"),
        (TINY + "samples: 1\nsamples: 2\n", ", line 4: the key 'samples' is already in l"),
        (TINY + 'samples: 1\n"samples": 2\n', ", line 4: the key 'samples' is already in line"),
        ("base: &a {x: 1, x: 1}\nother: *a\n", ", line 1: the key 'x' is already in line 1"),
        ("task: {name: a, name: b}\n", ", line 1: the key 'name' is already in line 1"),
        ("task:\n  deep:\n    b: 1\n    b: 2\n", ", line 4: the key 'b' is already in line"),
        (TINY + "variants:\n  a: {}\n  a: {}\n", ", line 5: the key 'a' is already in line"),
        (TINY + "? [a, b]\n: 3\n", ", line 3: a key must be a word"),
        (TINY + "{a: b}: 3\n", ", line 3: a key must be a word"),
        (TINY + "variants: {a: {[1]: 2}}\n", ", line 3: a key must be a word"),
        ("a: &a [*a]\n", ", line 1: found unconstructable recursive node"),
        ("a: &a {<<: *a}\n", ""),
        (TINY + "seed: 2024-99-99\n", ", line 3: a value looks like a number or a date"),
        (TINY + "seed: !!int SECRET\n", ", line 3: a value looks like a number"),
        (TINY + "seed: 1" + "0" * 5000, ", line 3: a value looks like a number"),
        (TINY + "x: !!python/object:os.system {}\n", ", line 3: could not determine a constructor"),
        (TINY + 'x: "\\ud800"\n', ", line 3: a text contains a lone surrogate"),
        (TINY + BOMB, ": aliases (*) repeat too many values"),
        (TINY + "samples: 2000000000\n", ": samples: "),
        (TINY + "rounds: {max: 2000}\n", ": rounds.max: "),
        (TINY + "x: " + "[" * 1000, ": the nesting is too deep"),
        (TINY + "x: " + "{a: " * 1000 + "}" * 1000, ": the nesting is too deep"),
        ("task: {<<: [1, 2], name: a}\n", ", line 1: expected a mapping for merging"),
    ],
)  # fmt: skip
def test_yaml_that_cannot_be_taken_names_its_line(file: Path, text: str, problem: str) -> None:
    assert refused(file, text).startswith(problem)


def test_a_question_mark_that_yaml_takes_for_a_key_needs_quotes(file: Path) -> None:
    file.write_text("task:\n  rows: [{prompt: a, target: ?}]\n")
    with pytest.raises(ConfigError, match=r"line 2: ") as caught:
        read_mapping(file)
    assert "in quotes" in str(caught.value.remedy)


def test_anchors_and_merge_keys_work_and_own_keys_win(file: Path) -> None:
    text = """
task: {name: collie}
model: &model {backend: simulated, name: m, accuracy: 0.5}
variants:
  a: &a {samples: 2, rounds.max: 3}
  b: {<<: *a, samples: 4}
  c: {<<: [{seed: 1}, *a]}
  d: {<<: {<<: *a, samples: 7}}
"""
    runs = loaded(file, text)
    assert [(run.samples, run.rounds.max) for run in runs.values()] == [
        (2, 3),
        (4, 3),
        (2, 3),
        (7, 3),
    ]
    assert runs["c"].seed == 1


def test_keys_are_the_words_that_are_written(file: Path) -> None:
    names = ["1", "007", "yes", "null", "2024-01-01"]
    changes = [f"{name}: {{seed: {seed}}}" for seed, name in enumerate(names)]
    runs = loaded(file, TINY + f"variants: {{{', '.join(changes)}}}\n")
    assert list(runs) == names


def test_a_character_written_as_two_json_escapes_is_one(file: Path) -> None:
    run = loaded(file, TINY + 'decoding: {stop: ["\\ud83d\\ude00", "ü"]}\n')[""]
    assert run.decoding.stop == ("😀", "ü")


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.dates(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(sorted(RunFile.model_fields)),
)
def test_no_value_makes_another_error_than_a_config_error(value: Any, key: str) -> None:
    try:
        tree = {"task": {"name": "t"}, "model": {"backend": "b"}, key: value}
        validate(RunFile, tree, "here")
    except ConfigError as error:
        assert str(error).startswith("here: ")  # noqa: PT017 (it may also be valid)


@settings(deadline=None)
@given(
    st.binary()
    | st.lists(st.sampled_from([*"{}[]&*!|>%@`#?:-,'\"\n\t \\<~0.", "a", "<<", "2024-01-01"]))
    .map("".join)
    .map(str.encode)
)
def test_no_content_makes_another_error_than_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    for text in (content, b"task: " + content, b"variants:\n  a: " + content):
        file.write_bytes(text)
        try:
            load_variants(file)
        except ConfigError as error:
            assert str(error).startswith((str(file), f"Cannot read {file}"))  # noqa: PT017


@given(st.text())
def test_no_override_makes_another_error_than_a_config_error(text: str) -> None:
    for override_text in (text, f"a={text}", f"a=[{text}]"):
        with contextlib.suppress(ConfigError):
            parse_override(override_text)


# Schema


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sampels: 3", "unknown key 'sampels' (did you mean 'samples'?)"),
        ("decoding: {temprature: 1}", "temprature' (did you mean 'decoding.temperature'?)"),
        ("temperature: 1", "unknown key 'temperature' (did you mean 'decoding.temperature'?)"),
        ("concurrency: 9", "(did you mean 'limits.concurrency'?)"),
        ("rounds: {maximum: 2}", "unknown key 'rounds.maximum' (did you mean 'rounds.max'?)"),
        ("limits: {zzz: 2}", "'limits.zzz' (valid names: attempts, batch, concurrency, "),
        ("api_key: sk-SECRET", "unknown key 'api_key' (valid names: "),
        ("{temperature:0.5}", None),
        ("decoding: {temperature:0.5}", "'decoding.temperature…' (a space is missing after its"),
        ("samples: many", "samples must be a whole number"),
        ("samples: true", "samples must be a whole number"),
        ("samples: sk-SECRET", "samples must be a whole number"),
        ("samples: 0", "samples: must be greater than or equal to 1"),
        ("samples:", "samples must be a whole number"),
        ("seed: 2024-01-01", "seed must be a whole number"),
        ("limit: .nan", "limit must be a whole number"),
        ("decoding:", "decoding must be a section, with keys below it"),
        ("decoding: warm", "decoding must be a section"),
        ("rounds: 3", "rounds must be a section"),
        ("rounds: {stop_on_pass: maybe}", "rounds.stop_on_pass must be true or false"),
        ("decoding: {temperature: .nan}", "decoding: temperature must be 0 or more, not nan"),
        ("decoding: {temperature: .inf}", "decoding: temperature must be 0 or more, not inf"),
        ("decoding: {temperature: 2024-01-01}", "decoding.temperature must be a number"),
        ("decoding: {max_tokens: -5}", "decoding: max_tokens must be from 1 to 2,147"),
        ("decoding: {stop: END}", "decoding.stop must be a list"),
        ("limits: {timeout_s: .inf}", "limits.timeout_s must be a finite number"),
        ("budget: {usd: 0}", "budget.usd: must be greater than 0"),
        ("budget: {usd: yes}", "budget.usd must be a number"),
        ("limits: {rpm: 1.5}", "limits.rpm must be a whole number"),
        ("judges: [fluency]", "judges.0 must be a section"),
        ("variants: [a, b]", "variants must be a section"),
        ("variants: {a: 3}", "variants.a must be a section"),
        ("variants: {../x: {}}", "variants: '../x' cannot name a run"),
        ("variants: {a: {sampels: 2}}", ", variant 'a': unknown key 'sampels' (did you mean"),
        ("variants: {a: {task.shots: -1}}", ", variant 'a': task.shots.n: must be greater"),
        ("variants: {a: {task.shots: true}}", "task.shots: must be a whole number, or a section"),
        ("variants: {a: {task.shots: {within: []}}}", "task.shots.n is missing"),
        ("variants: {a: {task.shots.n: 1, task.shots.widthin: []}}", "task.shots.within'?)"),
        ("variants: {a: {task.shots: {n: 1, within: a}}}", "task.shots.within must be a list"),
        ("variants: {a: {task.shots: {n: 1, ids: [3]}}}", "task.shots.ids.0 must be text"),
        ("variants: {a: {task.shots: {n: 1, select: x}}}", "task.shots.select: must be 'first', "),
        ("variants: {a: {task.shots: {n: 1, source: {token: a}}}}", "source would contain a"),
        ("seed: 3\nvariants: {a: {seed.x: 2}}", ", variant 'a': 'seed.x' cannot be set: 'seed' is"),
        ("variants: {a: {variants: {b: {}}}}", "variants: 'a' sets variants or matrix"),
    ],
)  # fmt: skip
def test_a_slip_names_the_key_and_what_it_must_be(
    file: Path, text: str, problem: str | None
) -> None:
    message = refused(file, TINY + text)
    assert problem is None or problem in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model: {backend: b}", "task is missing"),
        ("task: {name: t}", "model is missing"),
        ("task: t\nmodel: {backend: b}", "with keys below it, such as task: {name: "),
        ("task: {name: t}\nmodel: gpt-4o", "such as model: {backend: "),
        ("task: {}\nmodel: {}", "task.name is missing; model.backend is missing"),
        ("task: {name: 5}\nmodel: {backend: b}", "task.name must be text: put it in quotes"),
        ("task: {name: null}\nmodel: {backend: b}", "task.name must be text"),
        ("task: {name: t}\nmodel: {api_key: sk-SECRET}", "model.backend is missing"),
        ("task: {name: t}\nmodel: {backend: b, api_key: sk-SECRET}", "'api_key' would contain"),
        ("task: {name: t}\nmodel: {backend: b, api_key:sk-SECRET}", "a space is missing after"),
        ("task: {name: t}\nmodel: {backend: b, base_url: 'http://me:SECRET@h'}", "'base_url' co"),
        ("task: {name: t}\nmodel: sk-SECRET", "model must be a section"),
        ("task: {name: t}\nmodel: {backend: [sk-SECRET]}", "model.backend must be text"),
    ],
)  # fmt: skip
def test_a_slip_in_task_or_model(file: Path, text: str, problem: str) -> None:
    assert problem in refused(file, text)


# Overrides


def test_overrides_go_over_the_file_and_make_sections(file: Path) -> None:
    run = loaded(
        file, TINY, "samples=4", "decoding.temperature=0.5", "model.name='5'", "task.dataset=a=b",
        "decoding.stop=[a, b]", "limit=null",
    )[""]  # fmt: skip
    assert (run.samples, run.decoding.temperature, run.model.name) == (4, 0.5, "5")
    assert run.task.options == {"dataset": "a=b"}
    assert run.decoding.stop == ("a", "b")


def test_the_last_override_of_a_key_counts(file: Path) -> None:
    assert loaded(file, TINY, "samples=4", "samples=5")[""].samples == 5


def test_what_the_command_line_sets_goes_over_the_overrides(file: Path) -> None:
    file.write_text(TINY + "limit: 7\n")
    assert load_variants(file, ["limit=8"], {"limit": 9})[""].limit == 9


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("samples", "-o 'samples' is not an override. Write -o key.path=value."),
        ("", "-o '' is not an override."),
        ("=3", "is not an override"),
        ("a..b=1", "-o 'a..b…' is not an override."),
        (".a=1", "is not an override"),
        ("model.=1", "is not an override"),
        ("sk-SECRET", "-o 'sk…' is not an override."),
        ("model.api_key:sk-SECRET", "-o 'model.api_key…' is not an override."),
        ("model.api_key sk-SECRET", "-o 'model.api_key…' is not an override."),
        ("samples=[", "the value is not valid YAML. Quote it: -o 'samples=\"…\"'."),
        ('task.extract={regex: "(\\d+)"}', "unknown escape character 'd'). Use single quotes"),
        ("decoding.temperature=[sk-SECRET", "-o decoding.temperature: the value is not valid"),
        ("samples=\t1", "-o samples: the value is not valid YAML."),
        ("model.name=2024-99-99", "-o model.name: a value looks like a number"),
        ("task.name={a: 1, a: 2}", "-o task.name: the key 'a' is already in line"),
        ("task.name={[1]: 2}", "-o task.name: a key must be a word"),
        ("task.name=" + "[" * 1000, "-o task.name: the nesting is too deep"),
        ("samples=many", "samples must be a whole number"),
        ("samples=", "samples must be a whole number"),
        ("sampels=4", "unknown key 'sampels' (did you mean 'samples'?)"),
        ("seed.x=4", "'seed.x' cannot be set: 'seed' is a value, not a section."),
        ("model=sk-SECRET", "model must be a section"),
        ("model.api_key=sk-SECRET", "'api_key' would contain a secret"),
        ("model.base_url=http://me:SECRET@host", "'base_url' contains a user name or password"),
        ("variants=null", "variants must be a section"),
        ("variants.a=sk-SECRET", "variants.a must be a section"),
        ("variants.a.sampels=3", "variant 'a': unknown key 'sampels'"),
    ],
)  # fmt: skip
def test_an_override_that_does_not_fit(file: Path, text: str, problem: str) -> None:
    assert problem in refused(file, TINY + "seed: 1\n", text)


@given(st.text(st.characters(exclude_characters="=")))
def test_an_override_without_an_equals_sign_shows_only_its_key(rest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override(f"model.api_key: SECRET{rest}")
    assert "SECRET" not in str(caught.value)


def test_setting_below_a_value_is_refused() -> None:
    tree: dict[str, Any] = {"a": {"b": 1}}
    set_key(tree, "a.c.d", 2)
    assert tree == {"a": {"b": 1, "c": {"d": 2}}}
    with pytest.raises(ConfigError, match=r"'a\.b\.c' cannot be set: 'b' is a value"):
        set_key(tree, "a.b.c", 3)


def test_an_element_of_a_list_without_a_name_has_none() -> None:
    tree: dict[str, Any] = {"task": {"checks": [{"exact_match": {}}, "contains", {"name": None}]}}
    with pytest.raises(ConfigError, match="The list has no element 'None'"):
        set_key(tree, "task.checks.None.ignore_case", True)


def test_an_element_of_a_list_is_named_by_its_name() -> None:
    tree: dict[str, Any] = {"judges": [{"name": "yes_no"}, {"name": "yes_no", "as": "second"}, 3]}
    set_key(tree, "judges.second.model.name", "m")
    set_key(tree, "judges.yes_no.votes", 5)
    assert tree["judges"] == [
        {"name": "yes_no", "votes": 5},
        {"name": "yes_no", "as": "second", "model": {"name": "m"}},
        3,
    ]
    with pytest.raises(ConfigError, match="The list has no element 'secnd'") as caught:
        set_key(tree, "judges.secnd.votes", 5)
    assert "second" in str(caught.value.remedy)
    with pytest.raises(ConfigError, match="has no element '0'") as caught:
        set_key(tree, "judges.0.votes", 5)
    assert "yes_no, second" in str(caught.value.remedy)
    with pytest.raises(ConfigError, match="is an element of a list"):
        set_key(tree, "judges.second", {})
    with pytest.raises(ConfigError, match="names no element of the list 'judges'") as caught:
        set_key(tree, "judges.votes", 5)
    assert "judges.yes_no.votes, judges.second.votes" in str(caught.value.remedy)


# Variants


def test_each_variant_is_the_file_with_its_overrides(file: Path) -> None:
    text = (
        TINY + "samples: 2\nvariants: {plain: {}, feedback: {rounds.max: 4}, best: {samples: 8}}\n"
    )
    runs = loaded(file, text)
    assert list(runs) == ["plain", "feedback", "best"]
    assert [run.samples for run in runs.values()] == [2, 2, 8]
    assert [run.rounds.max for run in runs.values()] == [1, 4, 1]
    assert not any(run.variants for run in runs.values())


def test_overrides_go_over_the_file_of_each_variant(file: Path) -> None:
    text = TINY + "variants: {a: {rounds.max: 2}, b: {rounds.max: 3}}\n"
    runs = loaded(file, text, "samples=5", "rounds.stop_on_pass=false").values()
    assert [(run.samples, run.rounds.max, run.rounds.stop_on_pass) for run in runs] == [
        (5, 2, False),
        (5, 3, False),
    ]


@pytest.mark.parametrize(
    ("changes", "override", "named"),
    [
        ("{samples: 2}", "samples=5", "samples"),
        ("{rounds.max: 4}", "rounds={max: 2}", "rounds.max"),
        ("{rounds: {max: 4}}", "rounds.stop_on_pass=false", "rounds.stop_on_pass"),
    ],
)
def test_an_override_of_what_a_variant_sets_is_refused(
    file: Path, changes: str, override: str, named: str
) -> None:
    said = refused(file, TINY + f"variants: {{a: {{}}, b: {changes}}}\n", override)
    assert f"variant 'b': it sets {named}, so an override has no effect." in said


def test_two_variants_that_are_the_same_run_are_refused(file: Path) -> None:
    said = refused(file, TINY + "variants: {a: {}, b: {seed: 1}, c: {samples: 1}}\n")
    assert said.startswith(", variant 'c': it is identical to 'a'.")


def test_an_override_may_reach_into_one_variant_or_add_one(file: Path) -> None:
    text = TINY + "variants: {a: {samples: 2}, b: {samples: 3}}\n"
    runs = loaded(file, text, "variants.a.samples=7", "variants.c={samples: 9}")
    assert {name: run.samples for name, run in runs.items()} == {"a": 7, "b": 3, "c": 9}


def test_variants_do_not_leak_into_each_other(file: Path) -> None:
    text = TINY + "variants: {a: {decoding.stop: [x]}, b: {decoding.top_p: 0.5}}\n"
    runs = loaded(file, text)
    assert runs["a"].decoding.top_p is None
    assert runs["b"].decoding.stop == ()


def test_reading_does_not_validate(file: Path) -> None:
    file.write_text("anything: [1, two]\n")
    assert read_mapping(file) == {"anything": [1, "two"]}


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (
            '{regx: "a"}',
            "key 'decoding.constraint.regx' (did you mean 'decoding.constraint.regex'?)",
        ),
        (
            "tsk",
            "decoding.constraint must be a section, with keys below it; decoding.constraint: mu",
        ),
        ("[a]", "decoding.constraint: must be 'task'"),
        ("{choices: 5}", "decoding.constraint.choices must be a list"),
        ("{regex: a, choices: [b]}", "constraint is one of json_schema, regex, choices, grammar"),
    ],
)
def test_slips_in_a_constraint_are_told_in_the_users_words(
    constraint: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "task: {name: collie}\nmodel: {backend: simulated}\n"
        f"decoding: {{constraint: {constraint}}}"
    )
    with pytest.raises(ConfigError) as raised:
        load_variants(path)
    assert said in str(raised.value)
    assert "DecodingConstraint" not in str(raised.value)
    assert "literal" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "Read {{ text }} # Answer as JSON",
        "Be brief. #1 rule: JSON",
        "# Rules\nBe brief.",
        "# Be brief.",
        "Two lines\n\n  {{ text }}\n",
        "&c is kept",
        " spaces ",
    ],
)
def test_text_in_an_override_is_literal(text: str) -> None:
    assert parse_override(f"task.prompt={text}") == ("task.prompt", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 # five", 5),
        ("'a # b' # c", "a # b"),
        ("|\n  a\n", "a\n"),
        ("!!str 5", "5"),
        ("[a b, c]", ["a b", "c"]),
        ("yes", True),
        ("", None),
        (" ", None),
    ],
)
def test_other_values_in_an_override_are_yaml(text: str, value: object) -> None:
    assert parse_override(f"a={text}") == ("a", value)


def test_a_template_as_an_override_is_text(tmp_path: Path) -> None:
    assert parse_override("task.prompt={{ question }}?") == ("task.prompt", "{{ question }}?")
    assert parse_override("task.prompt=Answer: {{ q }}") == ("task.prompt", "Answer: {{ q }}")
    assert parse_override("task.prompt={% if a %}b{% endif %}")[1] == "{% if a %}b{% endif %}"
    assert parse_override("task={name: collie}") == ("task", {"name": "collie"})
    file = tmp_path / "a.yaml"
    file.write_text("task: {name: jsonl, prompt: {{ question }}}")
    with pytest.raises(ConfigError, match="a template needs quotes"):
        read_mapping(file)
