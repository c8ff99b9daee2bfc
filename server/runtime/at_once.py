"""Answers without a server: nobody else waits, so there is no queue."""

from msgspec.structs import replace

from ..engine.execution import execute
from ..engine.request import Caller
from ..engine.send_time import SendTime
from ..schema.predict import Answer, Terms
from .translator import Translator

AFTER_S = 1e-5  # what making an answer takes, until that is known


class AtOnce:
    """Answers in the caller's own thread, which must be one.

    What it takes to make an answer of an outcome is kept of every budget, as a server
    keeps what sending takes.
    """

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._after = SendTime(usual=AFTER_S)

    def answer(self, terms: Terms, payload: object) -> Answer:
        """Answer for bytes, a string or a mapping; its budget starts with this call.

        Raises
        ------
        BadInput
            If the terms cannot be used.
        BadItem, BadFeature
            If it is no item of the index's kind, or a feature cannot be computed on it.
        """
        translator = self._translator
        planner = translator.planner
        arrived_s = planner.now()
        item = translator.read(payload)
        request = translator.request(terms, item, arrived_s, Caller(), self._after)
        request = translator.weighed(request)
        outcome = execute(planner, request)
        at_once = replace(request, read_s=outcome.started_s)
        answer = translator.answer(at_once, outcome)
        now_s = planner.now()
        self._after.add(now_s - outcome.finished_s, now_s)
        return answer
