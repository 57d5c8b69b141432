"""Chat templates of the task `lm_eval`."""

from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.plugins.lm_eval.loading import ChatTemplate

TURNS = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": " There are "}]


def test_a_chat_may_end_with_a_turn_whose_text_the_template_must_keep(tmp_path: Path) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text("{% for turn in messages %}[{{ turn.content | trim }}]{% endfor %}")
    assert ChatTemplate(path)(TURNS) == "[How many?][There are]"
    assert ChatTemplate(path)(TURNS, add_generation_prompt=False) == "[How many?][There are"
    path.write_text("{% for turn in messages %}[{{ turn.content | upper }}]{% endfor %}")
    with pytest.raises(ConfigError, match=r"chat\.jinja changes the text .* 'There are'"):
        ChatTemplate(path)(TURNS, add_generation_prompt=False)
