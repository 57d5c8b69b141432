"""A file is the old one or the new one, and nothing is left beside it."""

import os
from pathlib import Path

import pytest

from harness.errors import StoreFailed
from harness.store.files import replace_atomically, write_atomically


def test_it_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with replace_atomically(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_what_ends_badly_leaves_the_old_one(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail() -> None:
        with replace_atomically(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_file_system_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a"
    with (
        pytest.raises(StoreFailed, match="No such file") as caught,
        replace_atomically(path, "Do this.") as temporary,
    ):
        temporary.write_text("new")
    assert caught.value.remedy == "Do this."


def test_a_pipe_that_nobody_reads_is_no_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), replace_atomically(tmp_path / "a"):
        raise BrokenPipeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("follow", [True, False])
def test_a_link_is_followed_only_if_asked(tmp_path: Path, follow: bool) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    with replace_atomically(link, follow=follow) as temporary:
        temporary.write_text("new")
    assert link.is_symlink() == follow
    assert path.read_text() == ("new" if follow else "old")
    assert link.read_text() == "new"


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "other"
    other.write_text("old")
    (tmp_path / f".a.{os.getpid()}").symlink_to(other)
    write_atomically(path, b"new")
    assert path.read_text() == "new"
    assert other.read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fill() -> None:
        with replace_atomically(path) as temporary:
            temporary.symlink_to("/dev/full")
            with temporary.open("wb") as file:
                os.write(file.fileno(), b"x")

    with pytest.raises(StoreFailed, match="No space left"):
        fill()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
