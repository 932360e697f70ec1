"""The gate before the handlers of one kind of listener: requests pass it with the elements that their client may ask for.

Denied elements never reach a handler (AUTHZ-5). Their refusals are put among the handler's answers, in the order of the request.
"""

import dataclasses
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, NamedTuple

from esp.broker.authorization.access import Access
from esp.broker.authorization.checks import MESSAGES, Each, Element, Whole, checks_of
from esp.broker.request import Request
from esp.broker.turns.request_parts import with_elements
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.error_responses import refused_elements
from esp.protocol.registry import ListenerKind

Handle = Callable[[Any], Any]
"""Returns the answer to a message, or the coroutine or generator that makes it."""


class _Refusals(NamedTuple):
    """The denied elements of a request: the list's place in the answer, the refusals by their places, the elements' number."""

    answered: str
    by_place: dict[int, Any]
    asked: int


class RequestGate:
    """Checks requests before their handlers see them.

    Args:
        kind: of the listeners.
        access: what clients may do.
        image: returns the cluster's metadata as clients see it here.
    """

    def __init__(self, kind: ListenerKind, access: Access, image: Callable[[], ClusterImage]) -> None:
        self._kind: Final = kind
        self._access: Final = access
        self._image: Final = image

    def handle(self, request: Request, message: Any, handle: Handle) -> Any:
        """Answer a request as far as it is allowed.

        Args:
            request: the request.
            message: its message, or a part of it.
            handle: the handler.

        Raises:
            ApiError: the client may not do this; or the handler's.
        """
        for check in checks_of(request.api_key, self._kind):
            if isinstance(check, Whole):
                needs = check.needs(message)
                if needs and self._access.refuses(request.client, *needs):
                    raise ApiError(check.code, MESSAGES[check.code])
            elif isinstance(check, Each) and hasattr(message, check.asked):
                return self._handle_each(request, message, check, handle)
        return handle(message)

    def rules_version(self) -> int:
        """See :class:`esp.broker.connections.dispatcher.Gate`."""
        return self._access.version

    def _handle_each(self, request: Request, message: Any, check: Each, handle: Handle) -> Any:
        image, client = self._image(), request.client
        asked = getattr(message, check.asked) or ()
        denied: dict[int, Element] = {}
        for place, each in enumerate(asked):
            element = check.of(image, each)
            if element is not None and self._access.refuses(client, *element.needs):
                absence = element.absence
                if absence is not None and self._access.allows(client, *absence.permission):
                    element = element._replace(code=absence.code, message=absence.message)
                denied[place] = element
        if not denied:
            return handle(message)
        refusal, refusals = _refuse(request, message, check, denied)
        allowed = tuple(each for place, each in enumerate(asked) if place not in denied)
        if not allowed:
            return with_elements(refusal, check.answered, list(refusals.by_place.values()))
        answer = handle(dataclasses.replace(message, **{check.asked: allowed}))
        if isinstance(answer, Coroutine):
            return _merged_later(answer, refusals)
        if isinstance(answer, Generator):
            return _merged_in_slices(answer, refusals)
        return _merged(answer, refusals)


def _refuse(request: Request, message: Any, check: Each, denied: dict[int, Element]) -> tuple[Any, _Refusals]:
    """An answer that holds refusals only, and the refusals."""
    asked = getattr(message, check.asked)
    by_place: dict[int, Any] = {}
    answer: Any = None
    for kind in dict.fromkeys((element.code, element.message) for element in denied.values()):
        code, text = kind
        places = [place for place, element in denied.items() if (element.code, element.message) == kind]
        answer = refused_elements(
            request.api_key,
            request.api_version,
            dataclasses.replace(message, **{check.asked: tuple(asked[place] for place in places)}),
            ApiError(code, text or MESSAGES[code]),
        )
        # An element that is named twice is refused once where the API answers so.
        by_place.update(zip(places, getattr(answer, check.answered), strict=False))
    return answer, _Refusals(check.answered, by_place, len(asked))


def _merged(answer: Any, refusals: _Refusals) -> Any:
    """The handler's answer with the refusals; a refusal of the whole stays as it is."""
    if getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.none:
        return answer
    answered = list(getattr(answer, refusals.answered))
    by_place = refusals.by_place
    if len(answered) + len(by_place) == refusals.asked:
        rest = iter(answered)
        merged = [by_place[place] if place in by_place else next(rest) for place in range(refusals.asked)]
    else:  # the handler answers once for what is named twice
        merged = [*answered, *by_place.values()]
    return with_elements(answer, refusals.answered, merged)


async def _merged_later(answer: Coroutine[Any, Any, Any], refusals: _Refusals) -> Any:
    result = await answer
    return _merged_in_slices(result, refusals) if isinstance(result, Generator) else _merged(result, refusals)


def _merged_in_slices(answer: Generator[None, None, Any], refusals: _Refusals) -> Generator[None, None, Any]:
    return _merged((yield from answer), refusals)
