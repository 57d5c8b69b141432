from pathlib import Path

import pytest

from harness.errors import ConfigError, DataMissing
from harness.prompts import Template, named, read, read_file

ROOT = Path(__file__).parents[2]


def test_every_prompt_that_is_shipped_is_found_and_is_a_template() -> None:
    files = {
        path.relative_to(ROOT / "prompts").with_suffix("").as_posix()
        for path in (ROOT / "prompts").rglob("*.jinja")
    }
    assert files
    assert set(named()) == files
    for name in files:
        assert read(name).names, name


def test_a_prompt_is_rendered_without_its_files_last_line_end() -> None:
    prompt = read("concodeeval/natural_language")
    assert prompt.render({"schema": "S", "output": "JSON"}).endswith("JSON sample:\n```")
    assert len(prompt.sha256) == 64


def test_an_unknown_prompt_names_the_nearest() -> None:
    with pytest.raises(DataMissing, match="concodeeval/generation_chat"):
        read("concodeeval/generation_cha")


def test_prompts_of_one_folder() -> None:
    assert named("concodeeval") == [name for name in named() if name.startswith("concodeeval/")]
    assert named("nothing") == []


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_bytes(b"Q: {{ question }}\r\nA:\r\n")
    assert read_file(path, "task.prompt").render({"question": "?"}) == "Q: ?\nA:"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_file(path, "task.prompt")
    with pytest.raises(ConfigError, match=r"cannot be read"):
        read_file(tmp_path / "none.jinja", "task.prompt")
    path.write_text("{{ question")
    with pytest.raises(ConfigError, match=r"task\.prompt"):
        read_file(path, "task.prompt")
    path.write_text("{{ cycler.__init__.__globals__ }}{{ x() }}")
    with pytest.raises(ConfigError, match="calls or macros"):
        read_file(path, "task.prompt")


def test_what_a_prompt_lacks_is_said() -> None:
    from harness.errors import DataInvalid

    with pytest.raises(DataInvalid, match="'b'"):
        Template("{{ b }}", "mine").render({"a": 1})
