"""Caches over texts of any length, bounded by what they hold and not by their number of entries alone."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")


class Cached(Protocol[P, T]):
    """A function whose results are cached; ``__wrapped__`` is the function itself."""

    __wrapped__: Callable[P, T]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result; raises what it raises."""
        ...


class CachedByLength(Cached[P, T], Protocol[P, T]):
    """A function whose results are cached by `cached_by_length`."""

    max_bytes: int
    """The most that its cache may hold."""


class _Tier(NamedTuple):
    """A cache of one function's results for arguments of bounded length."""

    name: str
    entry_bytes: int
    """The most that one entry takes."""
    info: Callable[[], Any]
    """``cache_info`` of `functools.lru_cache`."""


_TIERS: list[_Tier] = []
"""Of all functions of this process, for `cache_sizes`."""


def cached_by_length(
    name: str, size: Callable[..., int], bytes_per_char: int, *tiers: tuple[int, int]
) -> Callable[[Callable[P, T]], CachedByLength[P, T]]:
    """Cache the results of a function in tiers: many of short arguments, few of long ones, none beyond the last tier.

    ``size`` gives the characters of the function's arguments; an entry takes ``bytes_per_char`` for each of them, its
    result included, as measured. Each tier is (characters, entries), in ascending order. ``name`` is that of the kind
    by which `cache_sizes` counts it.
    """

    def decorate(function: Callable[P, T]) -> CachedByLength[P, T]:
        caches: list[tuple[int, Callable[..., T]]] = [
            (chars, _tier(name, chars * bytes_per_char, entries, function)) for chars, entries in tiers
        ]
        uncached: Callable[..., T] = function
        (most, short), *longer = caches

        @wraps(function)
        def call(*args: Any) -> T:  # noqa: ANN401 - as the function's
            found = size(*args)
            if found <= most:
                return short(*args)
            return next((cached for chars, cached in longer if found <= chars), uncached)(*args)

        call.max_bytes = sum(chars * bytes_per_char * entries for chars, entries in tiers)  # type: ignore[attr-defined]
        return cast("CachedByLength[P, T]", call)

    return decorate


def cached_by_word(entry_bytes: int, entries: int) -> Callable[[Callable[P, T]], Cached[P, T]]:
    """Cache the results of a function of short words: the last ``entries`` of them, of at most ``entry_bytes`` each.

    For longer words call its ``__wrapped__``. `cache_sizes` counts it among ``words``.
    """
    return lambda function: _tier("words", entry_bytes, entries, function)


def _tier(name: str, entry_bytes: int, entries: int, function: Callable[P, T]) -> Cached[P, T]:
    cached = lru_cache(maxsize=entries)(function)
    _TIERS.append(_Tier(name, entry_bytes, cached.cache_info))
    return cast("Cached[P, T]", cached)


def total_chars(texts: Iterable[str]) -> int:
    """The characters of all texts together."""
    return sum(map(len, texts))


_CACHES: "WeakSet[CacheBySize[Any, Any]]" = WeakSet()


def cache_sizes() -> dict[str, tuple[int, int]]:
    """Kind of the caches of this process → bytes held by all of them, and the most that they may hold.

    Entries of functions over texts count as the longest of their tier.
    """
    sizes: dict[str, tuple[int, int]] = {}
    for name, size, most in (*_sized(), *_tiered()):
        held, bound = sizes.get(name, (0, 0))
        sizes[name] = held + size, bound + most
    return sizes


def _sized() -> Iterator[tuple[str, int, int]]:
    return ((cache.name, cache.size, cache.max_bytes) for cache in _CACHES)


def _tiered() -> Iterator[tuple[str, int, int]]:
    for tier in _TIERS:
        found = tier.info()
        yield tier.name, found.currsize * tier.entry_bytes, found.maxsize * tier.entry_bytes


class CacheBySize(Generic[K, T]):
    """A least-recently-used mapping of at most ``max_bytes``; a value that is larger alone is not kept.

    An ask looks into it hundreds of times, and `OrderedDict` takes a fifth of the time of a cache written in Python.
    """

    def __init__(self, max_bytes: int, name: str) -> None:
        """``name`` is that of its kind, by which `cache_sizes` counts it."""
        self._kept: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._size = 0
        self._max_bytes = int(max_bytes)
        self.name = name
        _CACHES.add(self)

    @property
    def size(self) -> int:
        """Bytes held, by the sizes that were given."""
        return self._size

    @property
    def max_bytes(self) -> int:
        """The most that it holds."""
        return self._max_bytes

    def get(self, key: K) -> T | None:
        """The value, which becomes the most recently used one; `None` if there is none."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def drop(self, key: K) -> None:
        """Forget a value; one that is not kept is no fault."""
        found = self._kept.pop(key, None)
        if found is not None:
            self._size -= found[1]

    def put(self, key: K, value: T, size: int) -> None:
        """Keep a value of that many bytes, and drop the oldest ones until all fit."""
        self.drop(key)
        if size > self._max_bytes:
            return
        self._kept[key] = (value, size)
        self._size += size
        while self._size > self._max_bytes:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._size -= oldest
