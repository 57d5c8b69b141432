"""Whether a class, an instance or a factory overrides a member of its base class."""

from functools import partial

from harness.plugin import Backend, Task
from harness.ports import overrides_method, plugin_class
from tests.conftest import Scripted, Sums


class Judged(Sums):
    def criteria(self, instance: object) -> tuple[()]:
        return ()


def test_a_class_and_its_instances_override_a_method() -> None:
    assert overrides_method(Judged, Task.criteria)
    assert overrides_method(Judged(), Task.criteria)
    assert not overrides_method(Sums, Task.criteria)
    assert not overrides_method(Judged(), Task.instruction)


def test_a_factory_overrides_nothing() -> None:
    assert not overrides_method(partial(Judged, 3), Task.criteria)
    assert not overrides_method(lambda: Judged(), Task.criteria)


def test_the_class_of_a_factory_is_the_base_class() -> None:
    assert plugin_class(Scripted, Backend) is Scripted
    assert plugin_class(Scripted.generate, Backend) is Backend
    assert plugin_class(Sums, Backend) is Backend
