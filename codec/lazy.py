"""Properties that are computed once, where a process may be forked meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801  it reads like `property`
    """A property that is computed when first read, then kept in the object's `__dict__`.

    `functools.cached_property` holds a lock while it computes, before Python 3.12: the same lock
    for all objects of a class. A process that is forked while another thread holds it waits for
    ever. Without a lock, two threads may both compute the value; they get equal ones.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value  # read from here next time, without this method
        return value
