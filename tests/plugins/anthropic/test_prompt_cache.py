"""Prompt caching against a server that counts cached beginnings as Anthropic does."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from harness.config.prices import Price
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.records import Usage
from tests.cli.command import harness

RUBRIC = "Be strict, and read every word of the answer before you decide.\n" * 150
ROWS = 12
PRICE = {"input": 2.0, "cached_input": 0.2, "cache_write": 2.5, "output": 10.0}


def answer(ask: MockRequest, _: int) -> str:
    return "Yes" if ask.model == "judge" else f"It is {ask.digest}."


def run_file(folder: Path, server: MockServer, *, caching: bool) -> Path:
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps({"prompt": f"Question {n}?"}) + "\n" for n in range(ROWS))
    )
    (folder / "prompt.txt").write_text(
        RUBRIC + "Text: {{ text }}\nQuestion: {{ criterion }}\nAnswer Yes or No."
    )
    model = {"backend": "anthropic", "base_url": server.url, "price": PRICE}
    judge = {
        "name": "yes_no",
        "as": "polite",
        "votes": 1,
        "prompt": str(folder / "prompt.txt"),
        "model": model | {"name": "judge", "prompt_caching": caching},
    }
    content = {
        "task": {
            "name": "jsonl",
            "path": str(folder / "rows.jsonl"),
            "checks": [{"judge": "polite", "criteria": "It is polite."}],
        },
        "model": model | {"name": "model"},
        "decoding": {"max_tokens": 50},
        "judges": [judge],
    }
    path = folder / "rubric.yaml"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("caching", [True, False])
def test_a_rubric_is_written_once_and_the_saving_is_that_of_the_bill(
    tmp_path: Path, caching: bool
) -> None:
    environment = os.environ | {
        "HARNESS_RUNS_DIR": str(tmp_path / "runs"),
        "HARNESS_CACHE_DIR": str(tmp_path / "cache"),
    }
    with MockServer(answers=answer) as server:
        file = run_file(tmp_path, server, caching=caching)
        plan = harness("run", file, "--dry-run", env=environment)
        ended = harness("run", file, "--yes", env=environment)
        assert ended.returncode == 0, ended.stderr
        bill = server.stats()
    assert ("prompt cache" in plan.stdout) == caching
    if not caching:
        assert (bill.cache_read_tokens, bill.cache_write_tokens) == (0, 0)
        assert "prompt cache" not in ended.stderr
        return
    tokens = bill.cache_write_tokens
    assert tokens == pytest.approx(len(RUBRIC) / 4, rel=0.01)
    assert bill.cache_read_tokens == tokens * (ROWS - 1)
    usage = Usage(bill.prompt_tokens, bill.completion_tokens, bill.cache_read_tokens, 0, tokens)
    price = Price(**PRICE)
    said = re.search(r"The prompt cache of judge saved \$(\S+): (\S+) tokens read", ended.stderr)
    assert said is not None, ended.stderr
    assert float(said[1]) == pytest.approx(price.cache_savings(usage), rel=0.01)
    assert int(said[2].replace(",", "")) == bill.cache_read_tokens
    metrics = json.loads((tmp_path / "runs" / "rubric" / "metrics.json").read_text())
    assert metrics["cost_usd"] == pytest.approx(price.cost(usage))
