"""Pages with which others verify service account tokens without asking this server: OpenID discovery and the public keys."""

import orjson

from trimtab.server.auth.authenticate import ISSUER
from trimtab.server.auth.token_keys import ALGORITHM, KeyRing
from trimtab.server.http.nonresource_paths import text_response
from trimtab.server.request.messages import Request, Response

DISCOVERY_PATH, KEYS_PATH = "/.well-known/openid-configuration", "/openid/v1/jwks"
_CACHE = (b"cache-control", b"public, max-age=3600")


class IssuerPages:
    """Serves both pages."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def __call__(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if request.method != "GET" or path not in (DISCOVERY_PATH, KEYS_PATH):
            return text_response(404, "404 page not found\n")
        if path == KEYS_PATH:
            return Response(200, orjson.dumps(self._keys.public_keys()), "application/jwk-set+json", [_CACHE])
        document = {
            "issuer": ISSUER,
            "jwks_uri": f"https://{request.server_address}{KEYS_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }
        return Response(200, orjson.dumps(document), "application/json", [_CACHE])
