# SPDX-License-Identifier: MIT
#
# Type stubs of the module `forebay`, which exists inside a worker only.
from typing import Any, Callable, Optional, TypeVar

_F = TypeVar("_F", bound=Callable[..., object])
_Hook = TypeVar("_Hook", bound=Callable[[], object])

__version__: str

def after_response(callable: _F, /, *args: Any, **kwargs: Any) -> _F:
    """Call callable once the response has left and close() was called."""

def client_connected() -> bool:
    """False once the client or the front end is known to be gone."""

def deadline() -> Optional[float]:
    """Seconds left for this request, or None without a limit."""

def worker_id() -> int:
    """The number of this worker in its pool, from 0."""

def pool() -> str:
    """The name of the pool."""

def worker_start(hook: _Hook, /) -> _Hook:
    """Decorator: hook() is called in each worker before its first request."""

def worker_exit(hook: _Hook, /) -> _Hook:
    """Decorator: hook() is called in each worker when it ends in order."""

class RequestTimeout(BaseException):
    """The request has run for longer than the pool's request_timeout."""
