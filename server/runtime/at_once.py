"""An answer without a server: nobody else waits, so there is no queue."""

from msgspec.structs import replace

from ..engine.execution import execute
from ..engine.request import Caller
from ..schema.predict import Answer, Terms
from .translator import Translator


def answer_at_once(translator: Translator, terms: Terms, payload: object) -> Answer:
    """Answer for bytes, a string or a mapping; its budget starts with this call.

    Raises
    ------
    BadInput
        If the terms cannot be used.
    BadItem, BadFeature
        If it is no item of the index's kind, or a feature cannot be computed on it.
    """
    arrived_s = translator.planner.now()
    item = translator.read(payload)
    request = translator.request(terms, item, arrived_s, Caller())
    outcome = execute(translator.planner, request)
    return translator.answer(replace(request, read_s=outcome.started_s), outcome)
