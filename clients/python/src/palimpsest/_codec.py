"""The wire's JSON as objects with attributes, and what callers give as the wire's JSON.

What users keep (`content`, `metadata`, documents) passes as it is; only objects that the interface names are touched.
"""

from __future__ import annotations

from typing import Any, Mapping, cast

from ._operations import SHAPES
from ._types import CLASSES

_KEYWORDS = {"from_": "from", "in_": "in", "is_": "is", "as_": "as", "with_": "with", "class_": "class"}
_ATTRIBUTES = {wire: name for name, wire in _KEYWORDS.items()}


def decode(value: Any, shape: str | None) -> Any:
    """The answer as an object of that name. Fields that this client does not know are left out, missing ones are None."""
    if shape is None or value is None:
        return value
    if isinstance(value, list):
        return [decode(item, shape) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if shape.startswith("*"):
        return {key: decode(item, shape[1:]) for key, item in fields.items()}
    made = CLASSES.get(shape)
    if made is None:
        return fields
    inner = SHAPES.get(shape, {})
    known: dict[str, Any] = dict.fromkeys(made.__dataclass_fields__)
    for name, item in fields.items():
        attribute = _ATTRIBUTES.get(name, name)
        if attribute in known:
            known[attribute] = decode(item, inner.get(name))
    return made(**known)


def encode(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as the wire has it: fields that are None are left out, unless a field may be null."""
    return {_KEYWORDS.get(name, name): value for name, value in request.items() if value is not None or name in _NULLABLE}


_NULLABLE = frozenset({"content", "policy"})
