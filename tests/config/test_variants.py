import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.run_file import check_name


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "1", "_x", "é", "a" * 200, "a..b"])
def test_a_name_that_a_folder_can_have(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "a\\b", "/a", "-a", ".a", "a b", "a:b"),
        *("a\n", "a\0", "\ud800", "a" * 201, "é" * 101),
    ],
)
def test_a_name_that_a_folder_cannot_have(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a run") as caught:
        check_name(name)
    assert len(str(caught.value)) < 200


@given(st.text())
def test_a_name_never_leaves_its_folder(name: str) -> None:
    try:
        check_name(name)
    except ValueError:
        return
    assert "/" not in name
    assert name not in (".", "..")
    assert len(name.encode()) <= 200
