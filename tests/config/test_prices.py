import math
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.backends.openai import PRESETS
from harness.config.prices import BUILTIN_PATH, LongContext, Price, PriceList, load_prices
from harness.config.yaml_text import read_mapping
from harness.errors import ConfigError
from harness.records import Usage

OPENAI = "api.openai.com"
GPT_4 = Price(input=30.0, output=60.0, batch_input=15.0, batch_output=30.0)
PLAIN = Price(input=2.0, output=8.0)
CACHED = Price(input=2.0, cached_input=0.5, output=8.0)
WRITING = Price(input=2.0, cached_input=0.5, cache_write=2.5, output=8.0)
LONG = Price(
    input=1.25,
    cached_input=0.125,
    output=10.0,
    long_context=LongContext(above_tokens=200_000, input=2.5, output=15.0),
)
UNPRICED = {
    "azure": "its host is the user's own, and its prices differ by region",
    "openrouter": "passes calls on: the price is that of whoever answers",
    "huggingface": "passes calls on: the price is that of whoever answers",
    "fireworks": "no dated figure was found",
}


@pytest.mark.parametrize(
    ("price", "usage", "usd"),
    [
        (PLAIN, Usage(), 0.0),
        (PLAIN, Usage(input_tokens=1_000_000, output_tokens=1_000_000), 10.0),
        (PLAIN, Usage(input_tokens=1, output_tokens=1), 0.00001),
        # reasoning is part of the output: 500 x 8 / 1e6
        (PLAIN, Usage(output_tokens=500, reasoning_tokens=400), 0.004),
        # where no cached price is stated, cached input costs what input does
        (PLAIN, Usage(input_tokens=1000, cached_input_tokens=400), 0.002),
        # 600 x 2 + 400 x 0.5 + 10 x 8 = 1480 millionths
        (CACHED, Usage(input_tokens=1000, cached_input_tokens=400, output_tokens=10), 0.00148),
        # 500 x 2 + 400 x 0.5 + 100 x 2.5 millionths, and without a price for writing, as input
        (WRITING, Usage(1000, 0, cached_input_tokens=400, cache_write_tokens=100), 0.00145),
        (CACHED, Usage(1000, 0, cached_input_tokens=400, cache_write_tokens=100), 0.0014),
        # a provider that counts more cached input than input
        (CACHED, Usage(input_tokens=100, cached_input_tokens=400), 0.00005),
        # exactly at the threshold: 200,000 x 1.25 + 100 x 10
        (LONG, Usage(input_tokens=200_000, output_tokens=100), 0.251),
        # one above it, every token costs more: 200,001 x 2.5 + 100 x 15
        (LONG, Usage(input_tokens=200_001, output_tokens=100), 0.5015025),
        # cached input counts towards it, and has no price of its own there
        (LONG, Usage(input_tokens=300_000, cached_input_tokens=200_000), 0.75),
    ],
)
def test_costs_by_hand(price: Price, usage: Usage, usd: float) -> None:
    assert price.cost(usage) == usd


def test_the_most_of_a_call_by_hand() -> None:
    assert PLAIN.max_cost(1000, 500) == 0.006
    assert LONG.max_cost(200_000, 0) == 0.25
    assert LONG.max_cost(300_000, 1000) == 0.765
    assert PLAIN.model_copy(update={"cache_write": 2.5}).max_cost(1_000_000, 0) == 2.5
    cheaper = LongContext(above_tokens=10, input=0.0, output=0.0)
    assert Price(input=1.0, output=1.0, long_context=cheaper).max_cost(1_000_000, 0) == 0.00001


usd = st.floats(min_value=0, max_value=1000)
tokens = st.integers(min_value=0, max_value=3_000_000)
rates = {
    "input": usd,
    "output": usd,
    "cached_input": st.none() | usd,
    "cache_write": st.none() | usd,
}
prices = st.builds(
    Price,
    **rates,
    long_context=st.none()
    | st.builds(LongContext, **rates, above_tokens=st.integers(min_value=0, max_value=300_000)),
)


@given(price=prices, data=st.data(), most_in=tokens, most_out=tokens)
def test_no_call_costs_more_than_the_most(
    price: Price, data: st.DataObject, most_in: int, most_out: int
) -> None:
    read_in = data.draw(st.integers(min_value=0, max_value=most_in))
    usage = Usage(
        input_tokens=read_in,
        output_tokens=data.draw(st.integers(min_value=0, max_value=most_out)),
        cached_input_tokens=data.draw(st.integers(min_value=0, max_value=read_in)),
        cache_write_tokens=data.draw(st.integers(min_value=0, max_value=read_in)),
    )
    most = price.max_cost(most_in, most_out)
    assert 0 <= price.cost(usage) <= most
    assert math.isfinite(most)


@pytest.mark.parametrize("figure", [-1, math.nan, math.inf, "3", True, 1e9, None])
def test_a_price_is_a_number_of_dollars(figure: object) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate({"input": figure, "output": 1})


def test_a_price_of_whole_dollars_is_one() -> None:
    assert Price.model_validate({"input": 30, "output": 0}) == Price(input=30.0, output=0.0)


def builtin() -> PriceList:
    return load_prices(None, today=date(2026, 11, 20))


def test_a_model_is_found_by_its_host_and_name() -> None:
    assert builtin().find(OPENAI, "gpt-4") == GPT_4
    assert builtin().find("API.OpenAI.com", "gpt-4") == GPT_4
    assert builtin().find("proxy.example.org", "gpt-4") is None


def test_a_dated_snapshot_costs_what_its_model_costs() -> None:
    found = builtin()
    assert found.find(OPENAI, "gpt-4o-2024-08-06") == found.find(OPENAI, "gpt-4o")
    claude = "api.anthropic.com"
    assert found.find(claude, "claude-sonnet-4-5-20250929") == found.find(
        claude, "claude-sonnet-4-5"
    )
    assert found.find(claude, "claude-opus-4-20250514") == Price(
        input=15.0,
        cached_input=1.5,
        cache_write=18.75,
        output=75.0,
        batch_input=7.5,
        batch_output=37.5,
    )


def test_a_snapshot_that_is_listed_has_its_own_price() -> None:
    gpt_4o = Price(input=5.0, output=15.0, batch_input=2.5, batch_output=7.5)
    gpt_35 = Price(input=1.0, output=2.0, batch_input=0.5, batch_output=1.0)
    assert builtin().find(OPENAI, "gpt-4o-2024-05-13") == gpt_4o
    assert builtin().find(OPENAI, "gpt-3.5-turbo-1106") == gpt_35
    assert builtin().find(OPENAI, "gpt-4-0613") == GPT_4


@pytest.mark.parametrize(
    "name",
    ["gpt-4-0999", "gpt-4o-0513", "gpt-4o-mini-tts", "gpt", "gpt-4o-", "gpt-5-2025-13-01", "GPT-4",
     "gpt-5-20250230", "gpt-5-2025-0807", "gpt-4o-2024-08-06-x", "ft:gpt-4o-2024-08-06:me", "",
     "gpt-5-2025-08-07-2025-08-07"],
)  # fmt: skip
def test_no_other_name_is_guessed(name: str) -> None:
    assert builtin().find(OPENAI, name) is None


def test_the_nearest_is_told() -> None:
    assert "'gpt-4o-mini'" in builtin().nearest(OPENAI, "gpt-4o-mimi")
    assert "harness prices api.openai.com" in builtin().nearest(OPENAI, "zzzz")
    assert builtin().nearest("x.example.org", "m") == "No model of x.example.org has a price."


def test_every_builtin_price_says_where_and_when_it_is_from() -> None:
    for entry in builtin():
        where = f"{entry.host}: {entry.model}"
        assert (entry.source or "").startswith("https://"), where
        assert entry.as_of is not None, where
        assert date(2023, 1, 1) < entry.as_of <= date.today(), where
        assert entry.until is None or entry.as_of <= entry.until, where
        assert not entry.own
        rates = entry.price.model_dump(exclude={"long_context", "tiers"}).values()
        long = entry.price.long_context
        figures = [*rates, *(long.model_dump(exclude={"above_tokens"}).values() if long else ())]
        assert all(0 < usd < 1000 for usd in figures if usd is not None), where
        assert entry.price.output >= entry.price.input >= (entry.price.cached_input or 0), where
        if long:
            assert long.above_tokens >= 100_000, where
            assert long.input > entry.price.input, where


def test_the_builtin_file_holds_no_model_twice() -> None:
    assert len(read_mapping(BUILTIN_PATH)) == len(
        {entry.host for entry in builtin()}
    )  # it refuses twins


def test_every_hosted_preset_is_priced_or_there_is_a_reason() -> None:
    priced = {entry.host for entry in builtin()}
    for name, preset in PRESETS.items():
        if preset.key is None:
            continue
        host = urlsplit(preset.url or "").hostname
        assert (host in priced) == (name not in UNPRICED), name
    assert "api.anthropic.com" in priced


def test_a_price_is_not_used_after_its_last_day() -> None:
    entry = builtin().entry("generativelanguage.googleapis.com", "gemini-3.8-flash")
    assert entry is not None
    assert entry.until is not None
    last = load_prices(None, today=entry.until)
    after = load_prices(None, today=entry.until + timedelta(days=1))
    assert last.find(entry.host, entry.model) == entry.price
    assert after.find(entry.host, entry.model) is None


def test_later_entries_replace_earlier_ones() -> None:
    entry = builtin().entry(OPENAI, "gpt-4")
    assert entry is not None
    mine = replace(entry, price=PLAIN, own=True)
    assert PriceList([entry, mine]).find(OPENAI, "gpt-4") == PLAIN


@pytest.mark.timed
def test_loading_is_quick_and_nothing_is_read_at_import() -> None:
    code = (
        "import harness.config.prices as p; assert not p._builtin_entries.cache_info().currsize;"
        "import time; began = time.perf_counter(); p.load_prices(None);"
        "print(time.perf_counter() - began)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ended.stdout) < 1.0, "100 ms, and room for a busy machine"
    load_prices(None)
    began = time.perf_counter()
    load_prices(None)
    assert time.perf_counter() - began < 0.1, "parsed once"


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_the_users_prices_go_over_the_builtin_ones(tmp_path: Path) -> None:
    path = own(
        tmp_path,
        """
        API.openai.com:
          models:
            gpt-4: {input: 27, output: 54, source: our contract}
            my-tune: {input: 1, output: 2}
        localhost:
          as_of: 2026-11-01
          models:
            llama: {input: 0, output: 0, long_context: {above_tokens: 5, input: 1, output: 1}}
        """,
    )
    found = load_prices(path)
    assert found.find(OPENAI, "gpt-4") == Price(input=27.0, output=54.0)
    assert found.find(OPENAI, "my-tune-2026-01-31") == Price(input=1.0, output=2.0)
    assert found.find(OPENAI, "gpt-4-0613") == GPT_4
    entry = found.entry(OPENAI, "gpt-4")
    assert entry is not None
    assert (entry.own, entry.source, entry.as_of) == (True, "our contract", None)
    local = found.entry("localhost", "llama")
    assert local is not None
    assert (local.as_of, local.source) == (date(2026, 11, 1), None)
    assert local.price.cost(Usage(input_tokens=5)) == 0
    assert local.price.cost(Usage(input_tokens=6)) == 0.000006
    assert load_prices(None).find(OPENAI, "my-tune") is None, "the next one is not touched"


def models(text: str) -> str:
    return f"api.openai.com:\n  models:\n    gpt-9: {text}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            models("{input: -1, output: 2}"),
            "api.openai.com: models.gpt-9.input: must be greater than or equal to 0",
        ),
        (models("{input: .nan, output: 2}"), "gpt-9.input must be a finite number"),
        (models("{input: .inf, output: 2}"), "gpt-9.input "),
        (models("{input: 1e99, output: 2}"), "gpt-9.input "),
        (models("{input: $3, output: 2}"), "gpt-9.input must be a number"),
        (models("{input: '3', output: 2}"), "gpt-9.input must be a number"),
        (models("{input: yes, output: 2}"), "gpt-9.input must be a number"),
        (models("{input: null, output: 2}"), "gpt-9.input must be a number"),
        (models("{input: [1], output: 2}"), "gpt-9.input must be a number"),
        (models("{input: 1}"), "gpt-9.output is missing"),
        (models("{inptu: 1, output: 2}"), "gpt-9.inptu' (did you mean 'models.gpt-9.input'"),
        (models("3"), "api.openai.com: models.gpt-9 must be a section"),
        (models("{input: 1, output: 2, as_of: soon}"), "gpt-9.as_of must be a date"),
        (models("{input: 1, output: 2, source: 3}"), "gpt-9.source must be text"),
        (models("{input: 1, output: 2, long_context: 3}"), "gpt-9.long_context must be a section"),
        (
            models("{input: 1, output: 2, long_context: {input: 1, output: 1}}"),
            "gpt-9.long_context.above_tokens is missing",
        ),
        (
            models("{input: 1, output: 2, long_context: {above_token: 1, input: 1, output: 1}}"),
            "gpt-9.long_context.above_tokens'?)",
        ),
        (models("{input: 1, input: 2, output: 2}"), "'input' is already in line"),
        ("api.openai.com: {gpt-9: {input: 1, output: 2}}", "api.openai.com: models is missing"),
        ("api.openai.com: 3", "api.openai.com: must be a section"),
        ("https://api.openai.com/v1: {models: {}}", "is not a host name. Write the API's host"),
        ("a b: {models: {}}", "is not a host name"),
        ("gpt-9: {input: 1, output: 2}", "unknown key 'input'"),
        ("", "is empty. Write US dollars"),
        ("- 1", "list of prices"),
        ("just text", "list of prices"),
        ("a:\n  models: {", "line 2"),
        ("a: &a [*a, *b]", "line 1"),
        ("a: !!python/object/apply:os.system [ls]", "line 1"),
        ("a: 2026-99-99", "line 1"),
        ("\x00", "is not a text file"),
    ],
)
def test_a_users_mistake_is_told_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    path = own(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_prices(path)
    assert str(path) in caught.value.message
    assert said in str(caught.value)
    assert caught.value.remedy or "control characters" in caught.value.message


def test_a_file_that_cannot_be_read_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "binary", tmp_path / ("x" * 5000)):
        with pytest.raises(ConfigError, match="HARNESS_PRICES: "):
            load_prices(path)


def test_calls_in_batches_cost_a_share_where_no_other_price_is_listed(tmp_path: Path) -> None:
    listed = """
here:
  batch_factor: 0.5
  models:
    plain: {input: 2, output: 8, long_context: {above_tokens: 10, input: 4, output: 12}}
    own: {input: 2, output: 8, batch_input: 2, batch_output: 7}
elsewhere: {models: {plain: {input: 2, output: 8}}}
"""
    path = tmp_path / "prices.yaml"
    path.write_text(listed)
    prices = load_prices(path)
    short, long = Usage(5, 1_000_000), Usage(11, 1_000_000)
    found = {
        (host, model): [price.batch.cost(usage) for usage in (short, long)]
        for host, model in (("here", "plain"), ("here", "own"), ("elsewhere", "plain"))
        if (price := prices.find(host, model))
    }
    assert found["here", "plain"] == pytest.approx([4, 6], abs=1e-3)
    assert found["here", "own"] == pytest.approx([7, 7], abs=1e-3)
    assert found["elsewhere", "plain"] == pytest.approx([8, 8], abs=1e-3)
