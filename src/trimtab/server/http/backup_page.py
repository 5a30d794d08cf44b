"""`/backup`: everything in the store as one stream, for administrators."""

import logging

from trimtab.errors import Forbidden
from trimtab.server import api_errors
from trimtab.server.auth.authorize import Action, Authorizer, denial_message
from trimtab.server.request.messages import Request, StreamingResponse
from trimtab.store.backup import stream_backup
from trimtab.store.store import Store

MEDIA_TYPE = "application/vnd.trimtab.backup"
EVERYTHING = Action("*", "*", "*")
"""A backup has all Secrets and roles, so it needs every verb on every resource, as the role `cluster-admin` has."""
log = logging.getLogger("trimtab.server")


class BackupPage:
    """Handles requests for a backup of one store."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    def __call__(self, request: Request) -> StreamingResponse:
        user = request.caller.user
        if not self._authorizer.allows(user, EVERYTHING):
            action = Action(request.method.lower(), path=request.path)
            raise Forbidden(f"forbidden: {denial_message(user, action)}: a backup needs all rights", details=True)
        if request.path.rstrip("/") != "/backup":
            raise api_errors.no_such_path()
        if request.method != "GET":
            raise api_errors.no_such_method()
        log.info("backup for %s at revision %d", user.name, self._store.revision)
        return StreamingResponse(stream_backup(*self._store.snapshot(), self._store.stored_value), MEDIA_TYPE)
