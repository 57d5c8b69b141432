import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, DataInvalid, ExtraMissing, import_extra
from harness.plugin_interface import wrap_errors
from harness.plugin_loader import kind
from harness.ports import BASE_CLASSES
from tests.installed import install_plugin

pytestmark = pytest.mark.usefixtures("executing_code")

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a third party's package, with its metadata, where packages are found."""

    def put(code: str, *, name: str = "third", **members: str) -> None:
        site = tmp_path / name
        named = {kind: dict([member.split(" = ")]) for kind, member in members.items()}
        install_plugin(site, code, named, name)
        monkeypatch.syspath_prepend(str(site))

    return put


ECHO = """
    from harness.plugin import Backend

    class Echo(Backend):
        features = frozenset()
        endpoint = ""
        cacheable = False

        def __init__(self, loud: bool = False, times: int = 1, schema="", free=None, *, secret):
            self.loud, self.times, self.schema, self.free = loud, times, schema, free
            self.secret = secret

        async def generate(self, request): ...
        async def aclose(self): ...

    plugin = Echo
"""


def test_the_built_in_backends_are_found_by_their_modules_names() -> None:
    assert {"openai", "simulated"} <= set(kind("backends").names())
    assert not [name for name in kind("backends").names() if name.startswith("_")]


def test_every_built_in_loads() -> None:
    for name in ("backends", "tasks"):
        for plugin in kind(name).names():
            assert callable(kind(name).load(plugin))


def test_a_backend_of_another_package_comes_in_by_the_same_door(install: Install) -> None:
    install(ECHO, backends="echo = Echo")
    assert "echo" in kind("backends").names()
    echo = kind("backends").build("echo", {"loud": True}, secret=len, read=print)
    assert (echo.loud, echo.times, echo.secret) == (True, 1, len)


@pytest.mark.parametrize("decorator", ["", "@harness.checker"])
def test_an_entry_point_may_name_a_function_that_checks(install: Install, decorator: str) -> None:
    code = f"""
        import harness

        {decorator}
        def has_tax(text: str, rate: float = 0.19) -> bool:
            return str(rate) in text
    """
    install(code, checkers="has_tax = has_tax")
    check = kind("checkers").build("has_tax", {"rate": 0.07})
    assert check.check("With 0.07.", None).passed
    assert not check.check("With 0.19.", None).passed
    assert kind("checkers").origin("has_tax")["package"] == "third"


def test_an_entry_point_of_one_kind_is_none_of_another(install: Install) -> None:
    install(ECHO, tasks="echo = Echo")
    assert "echo" in kind("tasks").names()
    assert "echo" not in kind("backends").names()


def test_a_built_in_is_never_shadowed(install: Install) -> None:
    install(ECHO, backends="simulated = Echo")
    assert kind("backends").load("simulated").__module__ == "harness.backends.simulated"


def test_two_packages_that_offer_one_name_are_both_named(install: Install) -> None:
    install(ECHO, backends="echo = Echo")
    install(ECHO, backends="echo = Echo", name="fourth")
    with pytest.raises(ConfigError, match=r"two plug-ins.*'echo'.*fourth and third.*Uninstall one"):
        kind("backends").load("echo")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError"),
        ("raise OSError('no device')", "no device"),
        ("x = 1", "AttributeError"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(
    install: Install, code: str, problem: str
) -> None:
    install(code, backends="echo = Echo")
    with pytest.raises(ConfigError, match=f"'echo' from third cannot be loaded.*{problem}"):
        kind("backends").load("echo")
    assert "echo" in kind("backends").names(), "the others can still be listed"


@pytest.mark.parametrize("place", ["...third:Echo", 3, ["third:Echo"]])
def test_a_wrong_declaration_hides_no_other_plug_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object
) -> None:
    info = tmp_path / "wrong-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness]\nwrong = wrong_declaration\n")
    (tmp_path / "wrong_declaration.py").write_text(
        "from harness.plugin import Plugin\n"
        f"plugin = Plugin(summary='', tasks={{'echo': {place!r}}})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("wrong_declaration", None)
    assert "jsonl" in kind("tasks").names()
    with pytest.raises(ConfigError, match="plug-in 'wrong' from wrong cannot be loaded"):
        kind("tasks").load("echo")


@pytest.mark.parametrize("name", ["simulate", "Simulated", "simulated "])
def test_an_unknown_name_gets_the_nearest_valid_one(name: str) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'simulated'"):
        kind("backends").load(name)


@pytest.mark.parametrize("name", ["", "_openai_errors", "simulated.plugin", "../x", "os"])
def test_a_name_that_is_no_plug_in_is_refused_with_the_valid_ones(name: str) -> None:
    with pytest.raises(ConfigError, match="There is no backend named") as caught:
        kind("backends").load(name)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("acuracy", "Did you mean 'accuracy'?"),
        ("nmae", "Did you mean 'name'?"),
        ("gold", "Valid names: "),  # handed over by the harness, not an option
        ("zzz", "Valid names: accuracy, backend, gain, habit, habit_share, latency_s, name."),
    ],
)
def test_an_unknown_option_gets_the_nearest_valid_one(option: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"'simulated' has no option {option!r}") as caught:
        kind("backends").validate_options("simulated", {option: 1})
    assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize("value", ["sk-SECRET", None, [1], float("nan"), float("inf"), {}])
def test_an_option_of_a_wrong_type_is_named_and_its_value_not_shown(value: Any) -> None:
    with pytest.raises(ConfigError, match="Option 'accuracy' of the backend 'simulated'") as caught:
        kind("backends").validate_options("simulated", {"accuracy": value})
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_option_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="The checker 'regex_match' needs the option 'pattern'"):
        kind("checkers").validate_options("regex_match", {})


def test_options_are_filled_in_with_their_defaults() -> None:
    options = kind("checkers").validate_options("regex_match", {"pattern": "x"})
    defaults = dict.fromkeys(("full", "ignore_case", "negate"), False)
    assert options.model_dump(exclude_none=True) == {"pattern": "x", **defaults}


def test_an_option_may_be_named_like_a_method_of_pydantic_or_have_no_type(
    install: Install,
) -> None:
    install(ECHO, backends="echo = Echo")
    built = kind("backends").build("echo", {"schema": "s", "free": [1]}, secret=len)
    assert (built.schema, built.free) == ("s", [1])


def test_parameters_that_gather_the_rest_are_no_options(install: Install) -> None:
    code = """
        from harness.plugin import Checker
        class plugin(Checker):
            def __init__(self, *args, **kwargs): self.given = (args, kwargs)
            def check(self, text, instance): ...
    """
    install(code, checkers="echo = plugin")
    assert kind("checkers").build("echo", {}, secret=len).given == ((), {})
    with pytest.raises(ConfigError, match="no option 'kwargs'"):
        kind("checkers").validate_options("echo", {"kwargs": 1})


TASK = """
    from harness.plugin import Task

    class Sums(Task):
        on_truncated = "fail"
        def instances(self): ...
        def fingerprint(self): ...
        def messages(self, instance, shots): ...
        def score(self, instance, text): ...
        def feedback(self, instance, text, scores): ...
        def reference(self, instance): ...

    class plugin(Sums):
        {member}
"""


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        ("measure = 'exact'", "a 'measure' and no 'score_of_no_answer'"),
        ("constraint_kind = 'regex'", "a 'constraint_kind' and no 'constraint'"),
        ("def turns(self, instance): ...", "'turns' and no 'at_turn'"),
        ("on_truncated = 'pass'", "neither 'fail' nor 'grade'"),
    ],
)
def test_a_member_without_the_one_that_it_needs_is_refused(
    install: Install, member: str, problem: str
) -> None:
    install(TASK.format(member=member), tasks="sums = plugin")
    with pytest.raises(ConfigError, match=problem):
        kind("tasks").build("sums", {})


def test_a_plug_in_without_its_base_class_is_refused(install: Install) -> None:
    install(ECHO.replace("Echo(Backend)", "Echo"), backends="echo = plugin")
    with pytest.raises(ConfigError) as refused:
        kind("backends").build("echo", {}, secret=str)
    assert refused.value.message == (
        "The backend 'echo' does not fit its interface. "
        "It does not inherit from harness.plugin.Backend."
    )
    assert "'harness docs plugins'" in refused.value.remedy


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ("*, scret", "keyword-only parameter 'scret'.* Did you mean 'secret'"),
        ("*, word", "keyword-only parameter 'word'.* must be a positional parameter"),
        ("secret", "'secret'.* required.* only if it is keyword-only"),
        ("n: 'Colour'", "signature of plugin fails .NameError: .*Colour"),
        ("n: int = 0", "The backend 'echo' fails .ZeroDivisionError: .*third.py"),
    ],
)
def test_a_constructor_that_cannot_be_called_is_refused(
    install: Install, parameter: str, problem: str
) -> None:
    code = f"""
        class plugin:
            def __init__(self, {parameter}): 1 / n
    """
    install(code, backends="echo = plugin")
    with pytest.raises(ConfigError, match=problem):
        kind("backends").build("echo", {})


def test_a_plug_in_without_a_required_member_is_refused(install: Install) -> None:
    code = "from harness.plugin import Loader\nclass plugin(Loader):\n    names = []"
    install(code, loaders="rows = plugin")
    with pytest.raises(ConfigError, match="It has no 'read'"):
        kind("loaders").build("rows", {})


def test_a_plug_in_without_a_required_attribute_is_refused(install: Install) -> None:
    install(TASK.format(member="pass").replace("on_truncated", "truncated"), tasks="sums = plugin")
    with pytest.raises(ConfigError, match="It has no 'on_truncated'"):
        kind("tasks").build("sums", {})


def test_a_complete_capability_and_members_of_ones_own_are_accepted(install: Install) -> None:
    member = "measure = 'exact'; score_of_no_answer = rows = _leak = None"
    install(TASK.format(member=member), tasks="sums = plugin")
    assert kind("tasks").build("sums", {}).measure == "exact"


def test_a_library_of_an_extra_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExtraMissing) as caught:
        import_extra("no_such_library.part", "report")
    assert str(caught.value) == (
        "This needs the package 'no_such_library': pip install 'harness-instruct[report]'"
    )
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "uv-receipt.toml").touch()
    with pytest.raises(ExtraMissing, match=r": uv tool install 'harness-instruct\[report\]'"):
        import_extra("no_such_library.part", "report")


def test_the_kinds() -> None:
    assert set(BASE_CLASSES) == {
        *("backends", "tasks", "checkers", "judges", "metrics", "measures"),
        *("loaders", "filters", "post_processors", "observers"),
    }
    with pytest.raises(ValueError, match="no such kind"):
        kind("secrets")


def test_a_plug_in_tells_where_it_is_from(install: Install, tmp_path: Path) -> None:
    install(ECHO, backends="echo = Echo")
    first = kind("backends").origin("echo")
    assert (first["package"], first["version"]) == ("third", "1.0")
    assert kind("backends").origin("echo") == first
    file = tmp_path / "third" / "third.py"
    file.write_text(file.read_text() + "# mended\n")
    assert kind("backends").origin("echo")["sha256"] != first["sha256"]
    ours = kind("checkers").origin("contains")
    assert ours["package"] == "harness"
    assert ours["sha256"] not in ("", kind("judges").origin("yes_no")["sha256"])


def test_what_a_plug_in_raises_is_told_as_its_own() -> None:
    said = r"^The filter 'x' fails \(KeyError: 'a'; test_plugins\.py, line \d+\)\."
    with pytest.raises(ConfigError, match=said), wrap_errors("The filter 'x'"):
        {}["a"]
    with pytest.raises(DataInvalid, match=r"^no column$"), wrap_errors("The filter 'x'"):
        raise DataInvalid("no column")
    said = r"\(TypeError: rows, caused by ValueError: line 3; test_plugins"
    with pytest.raises(ConfigError, match=said), wrap_errors("The filter 'x'"):
        raise TypeError("rows") from ValueError("line 3")


@pytest.mark.parametrize(
    ("imported", "expected"),
    [
        ("from limits import MOST", {"limits.py"}),
        ("import limits", {"limits.py"}),
        ("from rules import passes", {"limits.py", "rules.py"}),
        ("from package import deep", {"package/__init__.py", "package/deep.py", "package/near.py"}),
        ("import package.near", {"package/__init__.py", "package/near.py"}),
        ("import elsewhere", {"../path/elsewhere.py"}),
        ("import json, harness, numpy.random, missing_module", set()),
    ],
)
def test_the_hash_of_a_check_covers_the_local_modules_that_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: str, expected: set[str]
) -> None:
    folder = tmp_path / "checks"
    modules = {
        "limits.py": "MOST = 3",
        "rules.py": "import limits, rules\n\ndef passes(text):\n    return True",
        "package/__init__.py": "",
        "package/deep.py": "from . import near\nfrom .near import N",
        "package/near.py": "N = 1",
        "package/unused.py": "",
        "../path/elsewhere.py": "this is no Python",
    }
    for name, text in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "path")
    file = folder / "check.py"
    file.write_text(f"def short(text):\n    {imported}\n    return True\n")
    checkers = kind("checkers")
    before = checkers.user_code_sha256(str(file))
    assert checkers.user_code_sha256(str(file)) == before
    noticed = set()
    for name in modules:
        (folder / name).write_text("# changed")
        if checkers.user_code_sha256(str(file)) != before:
            noticed.add(name)
        (folder / name).write_text(modules[name])
    assert noticed == expected


def test_a_check_runs_with_the_modules_beside_it_as_they_are_now(tmp_path: Path) -> None:
    limits, file = tmp_path / "limits_of_mine.py", tmp_path / "short.py"
    file.write_text(
        "from limits_of_mine import MOST\n\ndef short(text):\n    return len(text) <= MOST\n"
    )
    for most, passed in ((3, False), (30, True)):
        limits.write_text(f"MOST = {most}\n")
        checker = kind("checkers").build(str(file), {})
        assert checker.check("a" * 20, None).passed is passed
    assert "limits_of_mine" not in sys.modules


def test_files_in_two_folders_import_their_own_modules_of_one_name(tmp_path: Path) -> None:
    for name, most in (("one", 1), ("two", 2)):
        (folder := tmp_path / name).mkdir()
        (folder / "mylib.py").write_text(f"MOST = {most}\n")
        (folder / "check.py").write_text(
            "from mylib import MOST\n\n"
            "def short(text):\n    import later\n    return len(text) <= MOST\n"
        )
    (tmp_path / "one" / "later.py").touch()
    (tmp_path / "two" / "later.py").touch()
    for name, passed in (("one", False), ("two", True)):
        checker = kind("checkers").build(str(tmp_path / name / "check.py"), {})
        assert checker.check("ab", None).passed is passed


def test_a_python_file_is_a_plugin_by_its_path(tmp_path: Path) -> None:
    checkers, file = kind("checkers"), tmp_path / "mine.py"
    file.write_text("def short(text: str, most: int = 3) -> bool:\n    return len(text) <= most\n")
    checker = checkers.build(str(file), {"most": 2})
    assert checker.check("abc", None).passed is False
    before = checkers.origin(str(file))["sha256"]
    file.write_text(file.read_text().replace("<= most", "<= most + 1"))
    assert checkers.origin(str(file))["sha256"] != before
    assert checkers.build(str(file), {"most": 2}).check("abc", None).passed is True
    for text, said in [
        ("def a(text): ...\ndef b(text): ...\n", "defines 2 public.*plugin = b. Or begin"),
        ("from textwrap import dedent\n", "defines 0 public.*plugin = dedent"),
        ("import nothing_of_this_name\n", "ModuleNotFoundError"),
    ]:
        other = tmp_path / f"{len(text)}.py"
        other.write_text(text)
        with pytest.raises(ConfigError, match=said):
            checkers.load(str(other))
    with pytest.raises(ConfigError, match=r"no file .*gone\.py"):
        checkers.load(str(tmp_path / "gone.py"))
