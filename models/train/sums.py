"""The additions: which pairs are taught, which are held out, and training rows of several sums each."""

import random

HIGHEST = 99
VOCABULARY = {"<unk>": 0, "\n": 1, "+": 2, "=": 3, **{str(d): 4 + d for d in range(10)}}
NEWLINE = VOCABULARY["\n"]


def split(seed=7, held_out=0.2):
    """(taught, held out), lists of (a, b). A pair and its mirror image are always on the same side."""
    # The hundred sums of single digits are all taught, as the table that the rest rests on.
    table = [(a, b) for a in range(10) for b in range(a, 10)]
    unordered = [(a, b) for a in range(HIGHEST + 1) for b in range(max(a, 10), HIGHEST + 1)]
    random.Random(seed).shuffle(unordered)
    cut = round(len(unordered) * held_out)

    def both_orders(pairs):
        return sorted({(a, b) for a, b in pairs} | {(b, a) for a, b in pairs})

    return both_orders(table + unordered[cut:]), both_orders(unordered[:cut])


def encode(text):
    """Token ids of a text of digits, plus, equals and newline."""
    return [VOCABULARY[c] for c in text]


def line(a, b):
    """A sum as the model reads and writes it."""
    return f"{a}+{b}={a + b}\n"


def rows(taught, count, length, seed):
    """`count` rows of `length` tokens, each starting with a whole sum, and per token whether it is part of an
    answer: (tokens, answer), lists of lists."""
    r = random.Random(seed)
    lines = []
    for a, b in taught:
        tokens = encode(line(a, b))
        start = len(tokens) - len(str(a + b)) - 1
        lines.append((tokens, [i >= start for i in range(len(tokens))]))
    all_tokens, all_answers = [], []
    for _ in range(count):
        tokens, answers = [], []
        while len(tokens) < length:
            t, a = r.choice(lines)
            tokens += t
            answers += a
        all_tokens.append(tokens[:length])
        all_answers.append(answers[:length])
    return all_tokens, all_answers
