"""Questions that a server answers, derived from the methods of a protocol.

A method of `seamark.reading.reader.Reader` that is marked with `verb` is a route of the server and
a method of the client. Limits of its arguments stand in its annotations.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, defstruct

__all__ = [
    "Answer",
    "Count",
    "Path",
    "Paths",
    "RunQuestion",
    "Verb",
    "of_method",
    "verb",
    "verbs_of",
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "_seamark_verb"

Path = Annotated[str, Meta(max_length=4096)]
"""Attribute path."""
Paths = Annotated[Collection[Path], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


class Question(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all questions.

    Attributes:
        seen: What came with an earlier answer to the same question; empty for none. If that answer
            still holds, ``{"unchanged": true}`` is answered.
        next: What came as ``next`` with the part before; empty for the first part.
    """

    seen: Annotated[str, Meta(max_length=200)] = ""
    next: Annotated[str, Meta(max_length=1 << 15)] = ""


class RunQuestion(Question, kw_only=True):
    """Base of questions about one run.

    Attributes:
        project: Project path.
        run: Run id.
    """

    project: Path
    run: Path


class Answer(Struct, Generic[T], omit_defaults=True):
    """An answer as it is sent.

    Attributes:
        answer: What was asked for.
        seen: Changes whenever the answer may; empty if that is not known.
        next: ``next`` of the question for the next part of what is too long for one answer; None
            for none.
        told: What is said of paths that no run has.
        total: How many items a list of some runs or groups would have without a limit; None if they
            were not counted.
        unchanged: Whether the answer is the one that was seen, and is left out.
    """

    answer: T = UNSET  # type: ignore[assignment]  # left out
    seen: str = ""
    next: str | None = None
    told: list[str] = []
    total: int | None = None
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A question.

    Attributes:
        name: Last part of its address.
        about: Description of the answer.
        question: Class of the arguments.
        answer: Type of the answer, or of what is sent, an `Answer`.
        parameters: Names of the arguments that may be given by position, in order.
        is_heavy: Whether it takes much memory, so that few are answered at a time.
        is_timely: Whether the answer changes while nothing is recorded.
    """

    name: str
    about: str
    question: Any
    answer: Any
    parameters: tuple[str, ...] = ()
    is_heavy: bool = False
    is_timely: bool = False

    @property
    def envelope(self) -> Any:
        """Type of the answer as it is sent."""
        is_whole = get_origin(self.answer) is Answer
        return self.answer if is_whole else Answer[self.answer]  # type: ignore[name-defined]


def verb(*, heavy: bool = False, timely: bool = False) -> Callable[[F], F]:
    """Mark a method as a question that a server answers.

    Args:
        heavy: See `Verb`.
        timely: See `Verb`.
    """

    def mark(method: F) -> F:
        setattr(method, _MARK, (heavy, timely))
        return method

    return mark


@functools.cache
def verbs_of(protocol: type) -> dict[str, Verb]:
    """Return the questions among the methods of a protocol, by name."""
    return {
        name: of_method(method, heavy=marks[0], timely=marks[1])
        for name, method in vars(protocol).items()
        if (marks := getattr(method, _MARK, None)) is not None
    }


def of_method(
    method: Callable[..., Any],
    base: type[Question] = RunQuestion,
    *,
    heavy: bool = False,
    timely: bool = False,
) -> Verb:
    """Return the question that a function answers; its first parameter is who answers.

    Args:
        method: The function.
        base: Class of the arguments that it has besides its parameters.
        heavy: See `Verb`.
        timely: See `Verb`.
    """
    hints = get_type_hints(method, include_extras=True)
    fields = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        field = (parameter.name, hints[parameter.name])
        is_optional = parameter.default is not parameter.empty
        fields.append((*field, parameter.default) if is_optional else field)
    name, about = method.__name__, inspect.cleandoc(method.__doc__ or "")
    title = f"{name.title().replace('_', '')}Question"
    question = defstruct(title, fields, bases=(base,), kw_only=True)
    parameters = tuple(field[0] for field in fields)
    return Verb(name, about, question, hints["return"], parameters, heavy, timely)
