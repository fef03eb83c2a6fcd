"""The subject of a certificate as in ACLs: in the format of RFC 2253, like Java's ``X500Principal``. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.security.tls.der import value_bounds

_VERSION = 0xA0
"""The tag of a certificate's version. Version 1 certificates don't contain this element."""

_TEXTS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""Tags of strings. As in Java, all are decoded as UTF-8, even two-byte characters."""

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The keywords of RFC 2253 (section 2.3). Other attributes are written as their identifier and a hexadecimal value."""

_ESCAPED = frozenset(',=+<>#;"\\')


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER; empty if the subject is empty.

    Raises:
        ValueError: The certificate is damaged.
    """
    (_, body), *_ = _elements(_value(certificate))
    fields = [element for element in _elements(body) if element[0] != _VERSION]
    if len(fields) < 5:
        raise ValueError("the certificate has no subject")
    # The fields are serial number, signature algorithm, issuer, validity and subject. The parts of the subject are
    # written in reverse order.
    parts = [value for _, value in _elements(fields[4][1])]
    return ",".join("+".join(_attribute(value) for _, value in _elements(part)) for part in reversed(parts))


def _attribute(pair: bytes) -> str:
    (_, identifier), (tag, value) = _elements(pair)
    name = _dotted(identifier)
    if name in _KEYWORDS and tag in _TEXTS:
        return f"{_KEYWORDS[name]}={_escaped(value.decode('utf-8', 'replace'))}"
    # Write the whole element, including its tag and length.
    return f"{_KEYWORDS.get(name, name)}=#{pair[value_bounds(pair, 0)[1] :].hex()}"


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    if not inner:
        return "\\ " * len(text)
    lead = len(text) - len(text.lstrip(" "))
    trail = len(text) - lead - len(inner)
    escaped = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in inner)
    return "\\ " * lead + escaped + "\\ " * trail


def _dotted(identifier: bytes) -> str:
    numbers, number = list[int](), 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    # The first two numbers are encoded as one (X.690, section 8.19.4).
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]])) if numbers else ""


def _value(element: bytes) -> bytes:
    start, end = value_bounds(element, 0)
    return element[start:end]


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the value of each element."""
    position = 0
    while position < len(data):
        start, end = value_bounds(data, position)
        yield data[position], data[start:end]
        position = end
