"""The size of request lines and headers, which is checked before anything is derived from them."""

from itertools import chain

from trimtab.errors import AddressTooLong, HeadersTooLarge
from trimtab.server.http.exchange import Scope

_PATH_LIMIT = 8 * 1024
_ADDRESS_LIMIT = 64 * 1024
"""Bytes of path and query together: label selectors may be long."""
_HEADERS_LIMIT = 64 * 1024
_HEADER_COUNT_LIMIT = 1000


def check_size(scope: Scope) -> None:
    """Refuse a request line or headers that are longer than any client needs."""
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    path_length = len(path.partition(b"?")[0])
    if path_length > _PATH_LIMIT or path_length + len(query) > _ADDRESS_LIMIT:
        raise AddressTooLong(
            f"the request line is too long: the path may have {_PATH_LIMIT} bytes, "
            f"with the query {_ADDRESS_LIMIT} bytes",
        )
    headers = scope["headers"]
    if len(headers) > _HEADER_COUNT_LIMIT or sum(map(len, chain.from_iterable(headers))) > _HEADERS_LIMIT:
        raise HeadersTooLarge(
            f"the headers are too large: a request may have {_HEADER_COUNT_LIMIT} headers of {_HEADERS_LIMIT} bytes"
        )
