"""Names for runs that nobody named."""

from __future__ import annotations

import hashlib
import re
import secrets

from seamark.reading import names
from seamark.reading.names import generated_name


def test_names_are_the_same_in_every_release():
    words = f"{names._ADJECTIVES}|{names._NOUNS}"
    assert hashlib.sha256(words.encode()).hexdigest()[:16] == "c4baa7b222e77940"
    assert generated_name("d1vl1kbuckmfh62g") == "mobile-iguana"
    assert generated_name("48ktib6gciu1fhsm") == "cordial-frog"


def test_names_are_two_of_hundreds_of_words_for_any_id():
    adjectives, nouns = names._word_lists()
    assert min(len(set(adjectives)), len(set(nouns))) > 256
    assert not set(adjectives) & set(nouns)
    made = {generated_name(secrets.token_hex(8)) for _ in range(300)}
    assert len(made) > 290
    odd = [generated_name(run) for run in ("", "\udc80", "a b", "x" * 10_000)]
    assert all(re.fullmatch(r"[a-z]{2,}-[a-z]{2,}", one) for one in (*made, *odd))
