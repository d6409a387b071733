"""Routes ``POST read/<verb>``, generated from functions and their signatures.

The body is a JSON object of the arguments, with ``seen`` of an earlier answer and ``next`` of the
previous part. An answer is ``{"answer": ..., "seen": ..., "next": ...}`` (see
`seamark.reading.reader.Answer`), in MessagePack for clients that accept it and in JSON for others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from seamark.paths import kind_of
from seamark.reading.reader import Question, Reader, Verb, of_method, verbs_of
from seamark.server.answering import OneRun, Several, heavy, schemas_of
from seamark.server.failures import FAILURE, FAILURES, Refusal
from seamark.server.guard import expect_somebody

F = TypeVar("F", bound=Callable[..., Any])

router: Final = APIRouter(prefix="/read")
_verbs: Final[list[Verb]] = []


def of_run(*, heavy: bool = False, timely: bool = False) -> Callable[[F], F]:
    """Register a verb about one run: a function of a `OneRun` and the arguments.

    The function reads one state of the store.

    Args:
        heavy: See `seamark.reading.reader.Verb`.
        timely: See there.
    """

    def add(function: F) -> F:
        _add(of_method(function, heavy=heavy, timely=timely), _one_run, function, _run_tag)
        return function

    return add


def of_all(
    question: type[Question] = Question,
    *,
    heavy: bool = False,
    tag: Callable[[Several], str] = lambda _: "",
) -> Callable[[F], F]:
    """Register a verb about many runs: a function of a `Several` and the arguments.

    Args:
        question: Class of further arguments, available in `Several.question`.
        heavy: See `seamark.reading.reader.Verb`.
        tag: Returns a tag that changes whenever the answer may change; empty if that is unknown.
    """

    def add(function: F) -> F:
        _add(of_method(function, question, heavy=heavy), _several, function, tag)
        return function

    return add


def verbs() -> dict[str, Verb]:
    """Return all verbs, by name."""
    return {verb.name: verb for verb in _verbs}


def describe(document: dict[str, Any]) -> None:
    """Add the arguments and answers of verbs to the description of an API with their routes."""
    kinds = [kind for verb in _verbs for kind in (verb.question, verb.envelope)]
    found, components = schemas_of(kinds)
    shapes = {
        verb.name: (_as_json(of_question), _as_json(of_answer))
        for verb, of_question, of_answer in zip(_verbs, found[::2], found[1::2], strict=True)
    }
    for path, methods in document["paths"].items():
        place, _, name = path.rpartition("/")
        if place.endswith(router.prefix) and name in shapes:
            of_question, of_answer = shapes[name]
            methods["post"]["requestBody"] = {"required": True, **of_question}
            methods["post"]["responses"]["200"] |= of_answer
    own = document.setdefault("components", {})
    own["schemas"] = own.get("schemas", {}) | components | {"Failure": FAILURE}


def _as_json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _add(
    verb: Verb,
    ask: Callable[[Request, bytes, Verb], Any],
    function: Callable[..., Any],
    tag: Callable[[Any], str],
) -> None:
    _verbs.append(verb)

    def endpoint(request: Request, body: Annotated[bytes, Depends(_body)]) -> Response:
        asked = ask(request, body, verb)
        arguments = {name: getattr(asked.question, name) for name in verb.parameters}

        def make() -> Any:
            # On one state of the store; it must not wait, since connections are few.
            moment = asked.server.store().database.holding()
            with heavy() if verb.is_heavy else nullcontext(), moment:
                return function(asked, **arguments)

        answer: Response = asked.answer(make, "" if verb.is_timely else tag(asked))
        return answer

    router.add_api_route(
        f"/{verb.name}",
        endpoint,
        methods=["POST"],
        operation_id=verb.name,
        summary=verb.about.partition("\n")[0],
        description=verb.about,
        tags=["run" if ask is _one_run else "runs"],
        response_class=Response,
        responses=FAILURES,
    )


async def _body(request: Request) -> bytes:
    return await request.body()


def _one_run(request: Request, body: bytes, verb: Verb) -> OneRun:
    # The arguments are parsed after the check of the role.
    about = _decoded(request, body, _AboutRun)
    one = OneRun(request, about.project, about.run)
    one.question = _decoded(request, body, verb.question)
    return one


class _AboutRun(msgspec.Struct):
    project: str
    run: str


def _several(request: Request, body: bytes, verb: Verb) -> Several:
    every = Several(request)
    every.question = _decoded(request, body, verb.question)
    return every


def _decoded(request: Request, body: bytes, kind: Any) -> Any:
    # 401 without a token, else 422.
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        expect_somebody(request)
        raise Refusal(422, "invalid", f"{error!s:.300}") from None


def _run_tag(one: OneRun) -> str:
    # Versions show aliases, which may have moved to other versions.
    is_version = kind_of(one.project, one.run) in ("model_version", "artifact")
    return "" if is_version else one.tag()


def _answer_by_reader(verb: Verb) -> None:
    def function(one: OneRun, **arguments: Any) -> Any:
        return getattr(one.read, verb.name)(**arguments)

    _add(verb, _one_run, function, _run_tag)


for _verb in verbs_of(Reader).values():
    _answer_by_reader(_verb)
