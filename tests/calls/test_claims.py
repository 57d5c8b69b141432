"""Claims between real processes, and within one."""

from pathlib import Path

from harness.calls.claims import LOCK_FILES, open_claims
from tests.calls.processes import line, process

HOLDER = """
    from harness.calls.claims import open_claims
    claims = open_claims(path)
    for word in sys.argv[2:]:
        print(claims.take(word), flush=True)
    time.sleep(60)
"""
KEYS = [f"{number:032x}" for number in range(3 * LOCK_FILES)]


def test_what_another_process_claims_is_free_when_that_is_killed(tmp_path: Path) -> None:
    claims = open_claims(tmp_path)
    with process(HOLDER, tmp_path, *KEYS) as other:
        assert [line(other) for _ in KEYS] == ["True"] * len(KEYS)
        assert not any(claims.take(key) for key in KEYS)
        assert claims.take("f" * 32), "one that nobody has"
        other.kill()
        other.wait(timeout=60)
        assert all(claims.take(key) for key in KEYS)
    claims.close()


def test_what_is_given_back_another_process_can_claim(tmp_path: Path) -> None:
    claims = open_claims(tmp_path)
    assert claims.take(KEYS[0])
    assert claims.take(KEYS[1])
    claims.release(KEYS[1])
    with process(HOLDER, tmp_path, *KEYS[:2]) as other:
        assert [line(other) for _ in range(2)] == ["False", "True"]
    claims.close()


def test_who_closes_leaves_the_claims_of_others_in_the_process(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes any descriptor of it."""
    one, two = open_claims(tmp_path), open_claims(tmp_path / ".")
    assert one.take(KEYS[0])
    assert not two.take(KEYS[0])
    two.close()
    with process(HOLDER, tmp_path, KEYS[0]) as other:
        assert line(other) == "False"
    one.close()


def test_who_recovers_the_file_is_alone_with_it(tmp_path: Path) -> None:
    claims = open_claims(tmp_path)
    script = """
        from harness.calls.claims import open_claims
        claims = open_claims(path)
        claims.register_user()
        print("in", flush=True)
        time.sleep(60)
    """
    with process(script, tmp_path) as other:
        assert line(other) == "in"
        assert not claims.lock_if_only_user()
        other.kill()
        other.wait(timeout=60)
        assert claims.lock_if_only_user()
    again = open_claims(tmp_path)
    assert not claims.lock_if_only_user(), "another user in this process"
    again.close()
    claims.close()


def test_without_locks_calls_go_on_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    claims = open_claims(tmp_path / "file")  # no folder can be made here
    assert claims.unsupported
    assert claims.take(KEYS[0])
    assert not claims.take(KEYS[0]), "within the process it is seen all the same"
    claims.register_user()
    assert claims.lock_if_only_user()
    claims.release(KEYS[0])
    claims.close()
