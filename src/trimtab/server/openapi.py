"""OpenAPI documents: what `kubectl` validates with, explains from, and reads merge keys in."""

from trimtab.server.answer import Answer, Ask
from trimtab.server.catalogue import Catalogue


class OpenApi:
    """The documents, made when first asked for and again after the catalogue changed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def answer(self, ask: Ask, path: str) -> Answer:
        return Answer(404, b"", "")
