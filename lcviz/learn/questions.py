"""A question under each picture, with its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question. right: index of the right option. why: the reply to every answer."""

    text: str
    options: list[str]
    right: int
    why: str


QUESTIONS = {
    "delta": Question(
        "The track has 1, the model 1.2. What must be stored?",
        ["1.2", "0.2", "2.2"],
        1,
        "The restart has 1 already: 1.2 − 1 = 0.2 is enough.",
    ),
    "levels": Question(
        "How far can a number be from the level of its bucket?",
        ["half a bucket", "a bucket", "any distance"],
        0,
        "The level is midway between the smallest and the largest member, and both are in the "
        "bucket.",
    ),
    "slots": Question(
        "x = 3: how many slots?",
        ["4", "7", "8"],
        1,
        "3 bits encode 8 values, and one of them is 0.",
    ),
    "tree": Question(
        "Which value should get the shortest word?",
        ["the largest", "the most frequent", "the rarest"],
        1,
        "The most frequent word is written most often, so its length counts most.",
    ),
    "runs": Question(
        "A word for each value: how many times smaller at most?",
        ["32", "200", "without limit"],
        0,
        "A float32 has 32 bits, the shortest word 1. One word for a whole run has no such limit.",
    ),
    "restart": Question(
        "0.2 was left out. Training adds 0.2 again. The next δ?",
        ["0.2", "0.4", "0"],
        1,
        "δ starts from the track, which lacks the first 0.2. What waits adds up. What a restart "
        "lacks, training makes up for.",
    ),
    "steps": Question(
        "With a tolerance of 0.1, how far can a restored weight be from the live one?",
        ["0.05", "0.1", "any distance"],
        1,
        "Steps are twice the tolerance apart, and a number goes to the nearest.",
    ),
    "neighbours": Question(
        "A pixel is black, 0, in the whole batch. Which weights do not change?",
        ["its row", "its column", "none"],
        1,
        "A weight changes by error × pixel. A column has the weights of one pixel, for all digits.",
    ),
}
