"""Properties that are computed when first read, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801  it reads like `property`
    """A property that is computed when first read, then kept in the object's `__dict__`.

    Like `functools.cached_property`, but without a lock. Before Python 3.12, `cached_property` has
    one lock for each property, shared by all objects. If a process forks while another thread holds
    the lock, the child waits for ever when it reads the property. Without a lock, two threads may
    both compute the value, and get equal ones.
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
