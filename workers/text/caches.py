"""Caches over texts of any length, bounded by what they hold and not by their number of entries alone."""

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

from cachetools import LRUCache

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K")


class CachedByLength(Protocol[P, T_co]):
    """A function whose results are cached by `cached_by_length`."""

    max_chars: int
    """Characters of all arguments that can be cached at once."""
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """The function's result; raises what it raises."""
        ...


def cached_by_length(
    size: Callable[..., int], *tiers: tuple[int, int]
) -> Callable[[Callable[P, T]], CachedByLength[P, T]]:
    """Cache the results of a function in tiers: many of short arguments, few of long ones, none beyond the last tier.

    ``size`` gives the characters of the function's arguments; each tier is (characters, entries), in ascending order.
    """

    def decorate(function: Callable[P, T]) -> CachedByLength[P, T]:
        caches: list[tuple[int, Callable[..., T]]] = [
            (chars, lru_cache(maxsize=entries)(function)) for chars, entries in tiers
        ]
        uncached: Callable[..., T] = function
        (most, short), *longer = caches

        @wraps(function)
        def call(*args: Any) -> T:  # noqa: ANN401 - as the function's
            found = size(*args)
            if found <= most:
                return short(*args)
            return next((cached for chars, cached in longer if found <= chars), uncached)(*args)

        call.max_chars = sum(chars * entries for chars, entries in tiers)  # type: ignore[attr-defined]
        return cast("CachedByLength[P, T]", call)

    return decorate


def total_chars(texts: Iterable[str]) -> int:
    """The characters of all texts together."""
    return sum(map(len, texts))


class _Sized(NamedTuple):
    value: Any
    size: int


_CACHES: "WeakSet[CacheBySize[Any, Any]]" = WeakSet()


def cache_sizes() -> dict[str, tuple[int, int]]:
    """Kind of the caches of this process → bytes held by all of them, and the most that they may hold."""
    sizes: dict[str, tuple[int, int]] = {}
    for cache in _CACHES:
        held, most = sizes.get(cache.name, (0, 0))
        sizes[cache.name] = held + cache.size, most + cache.max_bytes
    return sizes


class CacheBySize(Generic[K, T]):
    """A least-recently-used mapping of at most ``max_bytes``; a value that is larger alone is not kept."""

    def __init__(self, max_bytes: int, name: str) -> None:
        """``name`` is that of its kind, by which `cache_sizes` counts it."""
        self._kept: LRUCache[K, _Sized] = LRUCache(max_bytes, getsizeof=lambda kept: kept.size)
        self.name = name
        _CACHES.add(self)

    @property
    def size(self) -> int:
        """Bytes held, by the sizes that were given."""
        return int(self._kept.currsize)

    @property
    def max_bytes(self) -> int:
        """The most that it holds."""
        return int(self._kept.maxsize)

    def get(self, key: K) -> T | None:
        """The value, which becomes the most recently used one; `None` if there is none."""
        found = self._kept.get(key)
        return None if found is None else found.value

    def put(self, key: K, value: T, size: int) -> None:
        """Keep a value of that many bytes, and drop the oldest ones until all fit."""
        self._kept.pop(key, None)
        if size <= self._kept.maxsize:
            self._kept[key] = _Sized(value, size)
