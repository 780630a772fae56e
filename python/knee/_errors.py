"""The exception of this package."""

from __future__ import annotations


class ExperimentError(ValueError):
    """Something that the user gave cannot be used. The text is the sentence that the command ``knee`` prints.

    Attributes:
        key: path of the key that is wrong, as ``network.bottleneck.rate``; ``None`` if it is about no key.
        line: line of the experiment's text, from 1; ``None`` if the value comes from Python, or is not in the text.
        allowed: what is allowed, in words.
    """

    key: str | None
    line: int | None
    allowed: str | None

    def __init__(
        self,
        sentence: str,
        key: str | None = None,
        line: int | None = None,
        allowed: str | None = None,
    ) -> None:
        super().__init__(sentence)
        self.key = key
        self.line = line
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[ExperimentError], tuple[object, ...]]:
        return type(self), (str(self), self.key, self.line, self.allowed)
