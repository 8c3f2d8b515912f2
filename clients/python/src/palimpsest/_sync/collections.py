# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""Values by key, documents, and vectors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence, cast

from typing_extensions import Unpack

from .. import _operations as ops
from .. import _types as t
from .. import errors
from .._calls import CallOptions, Parts
from .scope import Scope

_KEYS_MAX = 1_000
"""Keys of one call that gets many."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it was read."""

    bytes: bytes
    hash: str | None
    """The hash of its content, for `if_match`."""

    def text(self) -> str:
        """The value as UTF-8."""
        return self.bytes.decode()

    def json(self) -> Any:
        """The value as JSON. Raises ValueError where it is none."""
        return json.loads(self.bytes)


class KeyValues:
    """The keys of one namespace of a branch."""

    def __init__(self, scope: Scope, ns: str) -> None:
        self._scope = scope
        self._path = {"ns": ns}

    def get(self, key: str, options: CallOptions | None = None) -> Value | None:
        """The value under a key, or None where there is none."""
        try:
            parts = Parts(path={**self._path, "key": key})
            response = self._scope.request(ops.GET_VALUE, parts, options)
        except (errors.DatabaseNotFound, errors.BranchNotFound):
            raise
        except errors.NotFound:
            return None
        etag = response.headers.get("etag")
        return Value(response.content, etag.strip('"') if etag else None)

    def put(
        self,
        key: str,
        value: str | bytes,
        options: CallOptions | None = None,
        /,
        **query: Unpack[t.PutValueQuery],
    ) -> t.PutValueResponse:
        """Stores text or bytes. With `if_match` or `if_absent` only where that holds (else Conflict)."""
        kind = "text/plain; charset=utf-8" if isinstance(value, str) else "application/octet-stream"
        body = value.encode() if isinstance(value, str) else value
        path = {**self._path, "key": key}
        parts = Parts(path=path, body=body, content_type=kind, query=cast("Mapping[str, Any]", query))
        return self._scope.call(ops.PUT_VALUE, parts, options)

    def delete(
        self, key: str, options: CallOptions | None = None, /, **query: Unpack[t.DeleteValueQuery]
    ) -> None:
        """Deletes a key; one that is not there is no error."""
        parts = Parts(path={**self._path, "key": key}, query=cast("Mapping[str, Any]", query))
        self._scope.call(ops.DELETE_VALUE, parts, options)

    def get_many(self, keys: Sequence[str], options: CallOptions | None = None) -> list[t.ValueEntry]:
        """The values of many keys: those that are there, in the order of the keys."""
        entries: list[t.ValueEntry] = []
        left = list(keys)
        while left:
            parts = Parts(path=self._path, body={"keys": left[:_KEYS_MAX]})
            page: t.GetValuesResponse = self._scope.call(ops.GET_VALUES, parts, options)
            entries.extend(page.entries)
            left = [*page.remaining, *left[_KEYS_MAX:]]
        return entries

    def put_many(
        self, items: Sequence[t.ValueInput], options: CallOptions | None = None
    ) -> t.PutValuesResponse:
        """Stores many values, all or none, each on its own condition."""
        return self._scope.call(ops.PUT_VALUES, Parts(path=self._path, body={"items": list(items)}), options)

    def delete_many(
        self, items: Sequence[t.ValueDeletion], options: CallOptions | None = None
    ) -> t.DeleteValuesResponse:
        """Deletes many keys, all or none, each on its own condition."""
        return self._scope.call(ops.DELETE_VALUES, Parts(path=self._path, body={"items": list(items)}), options)

    def keys(self, options: CallOptions | None = None, /, **query: Unpack[t.ListKeysQuery]) -> Iterator[str]:
        """All keys, or those that begin with `prefix`, in the order of their bytes."""
        parts = Parts(path=self._path, query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.LIST_KEYS, parts, lambda page: page.keys, options)

    def entries(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListKeysQuery]
    ) -> Iterator[t.ValueEntry]:
        """All keys with their sizes and expiries, or with `include="values"` their values and hashes too."""
        parts = Parts(path=self._path, query={"include": "details", **query})
        return self._scope.pages(ops.LIST_KEYS, parts, lambda page: page.entries, options)


class Documents:
    """The documents of one collection of a branch."""

    def __init__(self, scope: Scope, coll: str) -> None:
        self._scope = scope
        self._path = {"coll": coll}

    def insert(
        self, docs: Mapping[str, Any] | Sequence[Mapping[str, Any]], options: CallOptions | None = None
    ) -> t.InsertDocsResponse:
        """Inserts documents, all or none; those without an `_id` get one."""
        listed = [docs] if isinstance(docs, Mapping) else list(docs)
        return self._scope.call(ops.INSERT_DOCS, Parts(path=self._path, body={"docs": listed}), options)

    def get(self, id: str, options: CallOptions | None = None) -> t.GetDocResponse | None:
        """The document of that id with its hash, or None where there is none."""
        return self._scope.find(ops.GET_DOC, Parts(path={**self._path, "id": id}), options)

    def put(
        self,
        id: str,
        doc: Mapping[str, Any],
        options: CallOptions | None = None,
        *,
        if_match: str | None = None,
        if_absent: bool | None = None,
    ) -> t.PutDocResponse:
        """Puts a document under an id. With `if_match` or `if_absent` only where that holds (else Conflict)."""
        body = {"doc": doc, "if_match": if_match, "if_absent": if_absent}
        return self._scope.call(ops.PUT_DOC, Parts(path={**self._path, "id": id}, body=body), options)

    def delete(
        self, id: str, options: CallOptions | None = None, /, **query: Unpack[t.DeleteDocQuery]
    ) -> t.DeleteDocResponse:
        """Deletes the document of that id."""
        parts = Parts(path={**self._path, "id": id}, query=cast("Mapping[str, Any]", query))
        return self._scope.call(ops.DELETE_DOC, parts, options)

    def find(
        self,
        where: Mapping[str, Any] | None = None,
        options: CallOptions | None = None,
        /,
        **request: Unpack[t.FindDocsRequest],
    ) -> Sequence[Mapping[str, Any]]:
        """Finds documents by a filter, sorted, at most 1,000."""
        body = {**request, **({"filter": where} if where is not None else {})}
        answer: t.FindDocsResponse = self._scope.call(ops.FIND_DOCS, Parts(path=self._path, body=body), options)
        return answer.docs

    def update(
        self, options: CallOptions | None = None, /, **request: Unpack[t.UpdateDocsRequest]
    ) -> t.UpdateDocsResponse:
        """Changes the documents that a filter holds of."""
        return self._scope.call(ops.UPDATE_DOCS, Parts(path=self._path, body=request), options)

    def delete_many(
        self, options: CallOptions | None = None, /, **request: Unpack[t.DeleteDocsRequest]
    ) -> t.DeleteDocsResponse:
        """Deletes the documents that a filter holds of."""
        return self._scope.call(ops.DELETE_DOCS, Parts(path=self._path, body=request), options)

    def create_index(self, path: str, options: CallOptions | None = None) -> t.CreateDocIndexResponse:
        """Makes an index on a path."""
        return self._scope.call(ops.CREATE_DOC_INDEX, Parts(path=self._path, body={"path": path}), options)


class Vectors:
    """The vectors of one collection of a branch."""

    def __init__(self, scope: Scope, coll: str) -> None:
        self._scope = scope
        self._path = {"coll": coll}

    def upsert(
        self, options: CallOptions | None = None, /, **vector: Unpack[t.UpsertVectorRequest]
    ) -> t.UpsertVectorResponse:
        """Stores one vector under its id."""
        return self._scope.call(ops.UPSERT_VECTOR, Parts(path=self._path, body=vector), options)

    def upsert_many(
        self, options: CallOptions | None = None, /, **request: Unpack[t.UpsertVectorsRequest]
    ) -> t.UpsertVectorsResponse:
        """Stores many vectors, all or none."""
        return self._scope.call(ops.UPSERT_VECTORS, Parts(path=self._path, body=request), options)

    def get(self, id: str, options: CallOptions | None = None) -> t.GetVectorResponse | None:
        """The vector of that id, or None where there is none."""
        return self._scope.find(ops.GET_VECTOR, Parts(path={**self._path, "id": id}), options)

    def delete(self, id: str, options: CallOptions | None = None) -> None:
        """Deletes a vector; one that is not there is no error."""
        self._scope.call(ops.DELETE_VECTOR, Parts(path={**self._path, "id": id}), options)

    def delete_many(
        self, options: CallOptions | None = None, /, **request: Unpack[t.DeleteVectorsRequest]
    ) -> t.DeleteVectorsResponse:
        """Deletes many vectors."""
        return self._scope.call(ops.DELETE_VECTORS, Parts(path=self._path, body=request), options)

    def search(
        self, options: CallOptions | None = None, /, **request: Unpack[t.SearchVectorsRequest]
    ) -> Sequence[t.VectorHit]:
        """The vectors nearest to one, nearest first."""
        parts = Parts(path=self._path, body=request)
        answer: t.SearchVectorsResponse = self._scope.call(ops.SEARCH_VECTORS, parts, options)
        return answer.hits

    def list(
        self, options: CallOptions | None = None, /, **query: Unpack[t.ListVectorsQuery]
    ) -> Iterator[t.VectorItem]:
        """All vectors by id."""
        parts = Parts(path=self._path, query=cast("Mapping[str, Any]", query))
        return self._scope.pages(ops.LIST_VECTORS, parts, lambda page: page.vectors, options)
