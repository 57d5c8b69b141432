import base64
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError, DataInvalid
from harness.tasks.natural_instructions.tokens import SPLITS, counter, estimate

TEXTS = [
    "How long did Jack's team play? 1,234,567 hours!!\n\n  They'LL say \t so.  ",
    "naïve café — 東京の天気は、とても良い。 Привет мир  \r\n x  \n",
    "def f(x):\n    return x['a']  # 100%\n\n\n",
    "DON'T i'm WE'VE CamelCaseWord HTTPServer ﬁne 🙂👍🏽 e\u0301",
    "",
]


def table(folder: Path, name: str, tokens: list[bytes]) -> Path:
    path = folder / f"{name}.tiktoken"
    rows = (f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens))
    path.write_text("\n".join(rows) + "\n")
    return path


def some_tokens() -> list[bytes]:
    """All bytes, then merges of two earlier ones, mostly of pairs that the texts have."""
    draw = random.Random(3)
    found = [bytes([n]) for n in range(256)]
    for _ in range(400):
        data = draw.choice(TEXTS).encode()
        if len(data) < 8:
            continue
        start = draw.randrange(len(data) - 5)
        for length in range(2, draw.randint(3, 6)):
            token = data[start : start + length]
            if token not in found:
                found.append(token)
    return found


def test_pairs_are_merged_by_rank(tmp_path: Path) -> None:
    count = counter(table(tmp_path, "r50k_base", [b"a", b"b", b"c", b"bc", b"ab", b" abc"]))
    assert count("abc") == 2  # a, bc
    assert count("ab abc") == 2
    assert count("") == 0
    assert count("zz") == 2


@pytest.mark.parametrize("name", SPLITS)
def test_it_counts_as_tiktoken_does(name: str, tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    tokens = some_tokens()
    count = counter(table(tmp_path, name, tokens))
    encoding = tiktoken.Encoding(
        name,
        pat_str=SPLITS[name],
        mergeable_ranks={token: rank for rank, token in enumerate(tokens)},
        special_tokens={},
    )

    @settings(max_examples=100, deadline=None)
    @given(st.one_of(st.sampled_from(TEXTS), st.text(max_size=40)))
    def same(text: str) -> None:
        assert count(text) == len(encoding.encode(text))

    same()
    assert count(TEXTS[0]) == len(encoding.encode(TEXTS[0]))


@pytest.mark.parametrize("line", ["YQ==", "YQ== x", "!!! 0", "YQ== 0 1"])
def test_what_is_no_table_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "r50k_base.tiktoken"
    path.write_text(f"Yg== 0\n\n{line}\n")
    with pytest.raises(DataInvalid, match="line 3"):
        counter(path)


def test_a_table_of_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'cl100k_base'"):
        counter(tmp_path / "cl100k.tiktoken")


def test_the_estimate_grows_with_the_text() -> None:
    assert counter(None) is estimate
    assert estimate("") == 0
    assert estimate("a" * 35) == 10
    assert estimate("東京") == 4
    assert estimate("\ud800") > 0
