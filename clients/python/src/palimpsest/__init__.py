"""The Python client of Palimpsest, the memory database of agents."""

from . import errors
from ._async.client import AsyncNamespace, AsyncPalimpsest
from ._async.database import AsyncDatabase
from ._async.profile import AsyncErasure, AsyncProfile
from ._calls import CallOptions
from ._sync.client import Namespace, Palimpsest
from ._sync.database import Database
from ._sync.profile import Erasure, Profile
from .memories import Event, Fact, Instruction, Task

__all__ = [
    "AsyncDatabase",
    "AsyncErasure",
    "AsyncNamespace",
    "AsyncPalimpsest",
    "AsyncProfile",
    "CallOptions",
    "Database",
    "Erasure",
    "Event",
    "Fact",
    "Instruction",
    "Namespace",
    "Palimpsest",
    "Profile",
    "Task",
    "errors",
]
