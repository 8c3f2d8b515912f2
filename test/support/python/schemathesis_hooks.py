"""What the OpenAPI document cannot say of two fields, of the database or of a node's own texts, is kept out of requests
that are to be taken. Requests that are to be refused go as they are."""

import schemathesis

# Parameters that do not go with others of the operation.
LEFT_OUT = {
    "diffStates": ["to", "to_branch"],
    "getFile": ["first_line", "last_line"],
    "getHistory": ["id"],
    "listMemories": ["status", "derived_from_memory", "derived_from_seq", "until"],
    "listTurns": ["last"],
}
# What is told as a header too must be told alike.
SAID_TWICE = {"Service-Branch": "branch", "Service-At": "at", "Service-Consistency": "consistency", "If-Match": "if_match"}


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    operation = case.operation.definition.raw["operationId"]
    query, headers = case.query, case.headers
    if headers:
        # No branch has given such an id yet.
        headers.pop("Service-Min-Txid", None)
        for header, parameter in SAID_TWICE.items():
            if header in headers and (parameter in (query or {}) or isinstance(case.body, dict) and parameter in case.body):
                headers.pop(header)
        # One of the two conditions.
        if "If-Match" in headers:
            headers.pop("If-None-Match", None)
    if query:
        # A text of the node's own making.
        query.pop("cursor", None)
        for parameter in LEFT_OUT.get(operation, []):
            query.pop(parameter, None)
    if operation == "diffStates":
        case.query = {**(query or {}), "from": "1"}
