"""What a call can end in other than its answer: one class for each stable code, and two for calls that got none."""

from __future__ import annotations


class PalimpsestError(Exception):
    """The base of everything that this client raises about a call."""


class RefusedError(PalimpsestError):
    """The node refused the call."""

    def __init__(self, message: str, *, code: str, status: int, retry_after: float | None, operation: str) -> None:
        super().__init__(message)
        self.code = code
        """The stable code, for programs."""
        self.status = status
        """The HTTP status."""
        self.retry_after = retry_after
        """Seconds after which a retry is expected to succeed; None where the node does not say."""
        self.operation = operation
        """The operation that was called, such as `recall`."""


class Unauthorized(RefusedError):
    """The credential is missing, wrong, expired or revoked."""


class Forbidden(RefusedError):
    """The credential or a policy does not allow it."""


class NotFound(RefusedError):
    """There is no such memory, document, value, file, vector, erasure or checkpoint."""


class DatabaseNotFound(NotFound):
    """There is no such database."""


class BranchNotFound(NotFound):
    """There is no such branch."""


class AlreadyExists(RefusedError):
    """The name is taken."""


class Conflict(RefusedError):
    """The state does not allow it: a condition that does not hold, a policy that would be loosened, a key used twice."""


class LostWrite(Conflict):
    """The transaction that this client had read or written is gone with the node that had not shipped it yet.

    What the client kept of the branch is dropped, so that the same call goes through when it is made again.
    """


class InvalidRequest(RefusedError):
    """The request is not one that the interface allows; the message names what is wrong and what is allowed."""


class PayloadTooLarge(RefusedError):
    """A body beyond its cap."""


class RequestTimeout(RefusedError):
    """The node did not finish within its own limit; a write may have happened."""


class Overloaded(RefusedError):
    """Too much is asked at once: `retry_after` says when to come back."""


class Unconfigured(RefusedError):
    """The node is not configured for it, such as for an embedder or a model."""


class Unavailable(RefusedError):
    """The node or something that it needs is away for now."""


class Internal(RefusedError):
    """A fault of the node; its log has the rest."""


class ConnectionFailed(PalimpsestError):
    """No answer came: the node cannot be reached, or the connection broke. A write may have happened."""


class DeadlineExceeded(PalimpsestError):
    """No answer within the time that the call was given. A write may have happened."""


CLASSES: dict[str, type[RefusedError]] = {
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "database_not_found": DatabaseNotFound,
    "branch_not_found": BranchNotFound,
    "already_exists": AlreadyExists,
    "conflict": Conflict,
    "invalid_request": InvalidRequest,
    "payload_too_large": PayloadTooLarge,
    "request_timeout": RequestTimeout,
    "overloaded": Overloaded,
    "unconfigured": Unconfigured,
    "unavailable": Unavailable,
    "internal": Internal,
}
"""The class of each code."""
