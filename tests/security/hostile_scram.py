"""SCRAM servers that don't know the password, or violate the protocol, and honest ones for contrast."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping

PASSWORD = "correct horse"
"""The client's password. Only the honest servers know it."""

SALT = "c2l4dGVlbiBieXRlcy4uLg=="
ADDED = "3rfcNHYJY1ZVvWVs7j"


def first_message(nonce: str, iterations: str = "4096", salt: str = SALT) -> str:
    """The server's first message."""
    return f"r={nonce},s={salt},i={iterations}"


FIRSTS: Mapping[str, Callable[[str], str]] = {
    "no iterations": lambda nonce: first_message(nonce + ADDED, "0"),
    "one iteration": lambda nonce: first_message(nonce + ADDED, "1"),
    "4095 iterations": lambda nonce: first_message(nonce + ADDED, "4095"),
    "negative iterations": lambda nonce: first_message(nonce + ADDED, "-4096"),
    "1,000,001 iterations": lambda nonce: first_message(nonce + ADDED, "1000001"),
    "999,999,999 iterations": lambda nonce: first_message(nonce + ADDED, "999999999"),
    "a billion iterations": lambda nonce: first_message(nonce + ADDED, "1000000000"),
    "iterations in other digits": lambda nonce: first_message(nonce + ADDED, "\u0664\u0660\u0669\u0666"),
    "the client's nonce alone": first_message,
    "another nonce": lambda nonce: first_message(ADDED),
    "the nonce behind its own": lambda nonce: first_message(ADDED + nonce),
    "a part of the nonce": lambda nonce: first_message(nonce[:-1]),
    "no nonce": lambda nonce: first_message(""),
    "what another client got": lambda nonce: first_message("fyko+d2lbbFgONRv9qkxdawL" + ADDED),
    "a mandatory extension": lambda nonce: "m=future," + first_message(nonce + ADDED),
    "no salt": lambda nonce: first_message(nonce + ADDED, salt=""),
    "a salt that is no base64": lambda nonce: first_message(nonce + ADDED, salt="====="),
    "an error at once": lambda nonce: "e=other-error",
    "a signature at once": lambda nonce: "v=" + base64.b64encode(bytes(32)).decode(),
    "the client's own message": lambda nonce: f"n=alice,r={nonce}",
    "nothing": lambda nonce: "",
    "noise": lambda nonce: "\x00\uffff" * 100,
}
"""First messages after which the client must not prove anything, for its nonce."""

FINALS: Mapping[str, Callable[[bytes, str], str]] = {
    "no signature": lambda signature, proof: "",
    "an empty signature": lambda signature, proof: "v=",
    "a signature of zeros": lambda signature, proof: _v(bytes(len(signature))),
    "a part of the signature": lambda signature, proof: _v(signature[:16]),
    "the signature and more": lambda signature, proof: _v(signature + b"\0"),
    "the client's proof": lambda signature, proof: f"v={proof}",
    "an error": lambda signature, proof: "e=invalid-proof",
    "an error with other characters": lambda signature, proof: "e=\r\n\x1b[31m" + "x" * 10_000,
    "an error and the signature": lambda signature, proof: f"e=other-error,{_v(signature)}",
    "an extension before the signature": lambda signature, proof: f"m=future,{_v(signature)}",
    "the first message again": lambda signature, proof: first_message(ADDED * 2),
}
"""Last messages that prove nothing, for the signature with the right password, and the client's proof."""


class ScramServer:
    """One exchange.

    Args:
        digest: The hash.
        attack: A name of `FIRSTS` or `FINALS`; ``"another password"``, which is proved as well as the right one would
            be; ``"extensions"``, which clients ignore; or ``""``, which is honest.
    """

    def __init__(self, digest: str, attack: str = "") -> None:
        self.attack = attack
        self._digest = digest
        self._said = ""

    def answer(self, token: bytes) -> bytes:
        """The answer to a token of the client."""
        text = token.decode()
        return (self._first(text) if text.startswith("n,") else self._final(text)).encode()

    def _first(self, text: str) -> str:
        bare = text.removeprefix("n,,")
        nonce = bare.partition(",r=")[2].partition(",")[0]
        first = FIRSTS[self.attack](nonce) if self.attack in FIRSTS else first_message(nonce + ADDED)
        if self.attack == "extensions":
            first += ",x=ignored"
        self._said = f"{bare},{first}"
        return first

    def _final(self, text: str) -> str:
        without_proof, _, proof = text.partition(",p=")
        password = "battery staple" if self.attack == "another password" else PASSWORD
        salted = hashlib.pbkdf2_hmac(self._digest, password.encode(), base64.b64decode(SALT), 4096)
        said = f"{self._said},{without_proof}".encode()
        signature = hmac.digest(hmac.digest(salted, b"Server Key", self._digest), said, self._digest)
        final = FINALS[self.attack](signature, proof) if self.attack in FINALS else _v(signature)
        return final + (",x=ignored" if self.attack == "extensions" else "")


def _v(signature: bytes) -> str:
    return "v=" + base64.b64encode(signature).decode()
