"""Deleted lock files: processes that have opened them still see each other, and no other starts."""

import shutil
from pathlib import Path

import pytest

from harness.calls.reply_cache import ReplyCache
from harness.errors import StoreFailed
from tests.calls.processes import line, process

KEY = "ab" * 16

USER = """
    from harness.calls.reply_cache import ReplyCache
    with ReplyCache(path) as replies:
        print(replies.claim(sys.argv[2]), flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("deleted", ["all", "one"])
def test_a_cache_in_use_without_its_claims_is_refused_until_it_is_free(
    tmp_path: Path, deleted: str
) -> None:
    path = tmp_path / "replies.sqlite"
    claims = tmp_path / "replies.claims"
    with process(USER, path, KEY) as other:
        assert line(other) == "True"
        if deleted == "all":
            shutil.rmtree(claims)
        else:
            (claims / "b").unlink()
        for _ in range(2):
            with pytest.raises(StoreFailed, match="was deleted while another run uses the cache"):
                ReplyCache(path)
        other.kill()
        other.wait(timeout=60)
    with ReplyCache(path) as replies:
        assert replies.claim(KEY)


def test_processes_that_have_opened_deleted_claims_still_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as replies:
        with process(USER, path, KEY) as other:
            assert line(other) == "True"
            shutil.rmtree(tmp_path / "replies.claims")
            assert not replies.claim(KEY)
        with ReplyCache(path) as again:
            assert again.claim(KEY), "in this process, they are still open"
