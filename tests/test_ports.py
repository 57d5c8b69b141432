"""Whether a class, an instance or a factory overrides a member of its base class."""

from functools import partial

from harness.plugin import Backend, Task
from harness.ports import class_of, overrides
from tests.conftest import Scripted, Sums


class Judged(Sums):
    def criteria(self, instance: object) -> tuple[()]:
        return ()


def test_a_class_and_its_instances_override_a_method() -> None:
    assert overrides(Judged, Task.criteria)
    assert overrides(Judged(), Task.criteria)
    assert not overrides(Sums, Task.criteria)
    assert not overrides(Judged(), Task.instruction)


def test_a_factory_overrides_nothing() -> None:
    assert not overrides(partial(Judged, 3), Task.criteria)
    assert not overrides(lambda: Judged(), Task.criteria)


def test_the_class_of_a_factory_is_the_base_class() -> None:
    assert class_of(Scripted, Backend) is Scripted
    assert class_of(Scripted.generate, Backend) is Backend
    assert class_of(Sums, Backend) is Backend
