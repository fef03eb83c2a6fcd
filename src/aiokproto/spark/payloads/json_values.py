"""From parsed JSON to Python values of a type, as Spark's ``from_json`` converts them. Pure.

This is the slow path, for values with an unusual form, and for types that Arrow's reader doesn't support. A value that
doesn't have its type becomes null, the rest of the row stays, and the row counts as malformed: this is Spark's
``spark.sql.json.enablePartialResults``, which is on by default.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    import pyarrow as pa

WHITE_SPACE = " \t\r\n"
"""JSON's white space."""

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?")
_CLOCK = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?"
_TIMESTAMP = re.compile(rf"([+-]?\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[T ]{_CLOCK}\s*(.*))?)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{1,2}))?")
_MAX_OFFSET = timedelta(hours=18)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = _EPOCH.toordinal()
_GREGORIAN_DAY = date(1582, 10, 15).toordinal() - _EPOCH_DAY
_DAYS_OF_400_YEARS = 146_097
_DAY = 86_400_000_000
_INT64_MAX = (1 << 63) - 1
_SPACE = re.compile(r"[\0- ]+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FLOATS = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}

_SHORT_ZONES = {
    "EST": "Etc/GMT+5",
    "HST": "Etc/GMT+10",
    "MST": "Etc/GMT+7",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's ``ZoneId.SHORT_IDS``, which Spark uses to parse zones."""


class Number(str):
    """A number as it was written, or NaN, or an infinity."""

    __slots__ = ()


class Malformed(Exception):
    """A value doesn't have its type. ``partial`` has the parts that could be read."""

    def __init__(self, partial: Any = None) -> None:
        super().__init__()
        self.partial = partial


Converter = Callable[[Any], Any]

_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)
_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(32)},
    **{ord(char): f"\\{letter}" for char, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
_BEYOND_16_BITS = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")


def parse(data: bytes) -> Any:
    """Return the value of a row of JSON, with numbers as :class:`Number`; None if the row is blank.

    Raises:
        ValueError, RecursionError: It isn't JSON, or it's the constant null, which has no columns.
    """
    text = data.decode().lstrip(WHITE_SPACE)
    if not text:
        return None
    # As in Spark, text after the value is ignored.
    value, _ = _DECODER.raw_decode(text)
    if value is None:
        raise ValueError
    return value


def converter(kind: pa.DataType) -> Converter:
    """Return a function that converts parsed values to a type. It raises :class:`Malformed` for other values."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        return _struct({field.name: converter(field.type) for field in kind})
    if types.is_map(kind):
        return _map(converter(kind.item_type))
    if types.is_list(kind):
        return _array(converter(kind.value_type))
    if types.is_decimal(kind):
        return _checked(_decimal(kind.precision, kind.scale))
    if types.is_integer(kind):
        return _checked(_integer(kind.bit_width))
    if types.is_timestamp(kind):
        return _checked(_timestamp if kind.tz else _timestamp_ntz)
    makers: dict[Any, Converter] = {
        pa.bool_(): _boolean,
        pa.float32(): _float,
        pa.float64(): _float,
        pa.string(): _string,
        pa.binary(): _binary,
        pa.date32(): _date,
    }
    return _checked(makers[kind])


def _checked(convert: Converter) -> Converter:
    def check(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, TypeError, OverflowError, ArithmeticError, KeyError):
            raise Malformed from None

    return check


def _struct(converters: dict[str, Converter]) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Malformed
        found: dict[str, Any] = {}
        whole = True
        for name, convert_field in converters.items():
            try:
                found[name] = convert_field(value.get(name))
            except Malformed as error:
                found[name] = error.partial
                whole = False
        if not whole:
            raise Malformed(found)
        return found

    return convert


def _array(element: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise Malformed
        found, whole = _each(value, element)
        if not whole:
            raise Malformed(found)
        return found

    return convert


def _map(item: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Malformed
        found, whole = _each(list(value.values()), item)
        pairs = list(zip(map(_unicode, value), found, strict=True))
        if not whole:
            raise Malformed(pairs)
        return pairs

    return convert


def _each(values: list[Any], convert: Converter) -> tuple[list[Any], bool]:
    """Convert values. As in Spark, malformed structs are kept in part; any other malformed value makes all the values
    null."""
    found: list[Any] = []
    whole = True
    for value in values:
        try:
            found.append(convert(value))
        except Malformed as error:
            if error.partial is None:
                raise
            found.append(error.partial)
            whole = False
    return found, whole


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _integer(bits: int) -> Converter:
    def convert(value: Any) -> int:
        if not isinstance(value, Number) or len(value) > 30:
            raise TypeError
        number = int(value)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise OverflowError
        return number

    return convert


def _float(value: Any) -> float:
    if isinstance(value, Number):
        return float(value)
    return _FLOATS[value]


def _string(value: Any) -> str:
    # A value that isn't a string becomes its text.
    return _unicode(value if type(value) is str else _text(value))


def _unicode(text: str) -> str:
    """Return a text that UTF-8 can encode. As in Java, half of a surrogate pair, from an escape, becomes ``?``."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _text(value: Any) -> str:
    if isinstance(value, str):
        # As in Spark, NaN and the infinities become quoted text, which is valid JSON.
        return value if isinstance(value, Number) and value[-1].isdigit() else _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quoted(name)}:{_text(item)}" for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value)


def _quoted(text: str) -> str:
    """Return the JSON of a text, with the escapes that Spark writes."""
    # Try Python's own function first, which is in C. Its result is right if it contains no escape, as for most texts.
    if "\\" not in (plain := encode_basestring_ascii(text)):
        return plain
    found = text.translate(_ESCAPES)
    return f'"{found}"' if found.isascii() else f'"{_BEYOND_16_BITS.sub(_surrogates, found)}"'


def _surrogates(match: re.Match[str]) -> str:
    codes = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{codes[i : i + 4]}" for i in range(0, len(codes), 4))


def _binary(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, Number):
        raise TypeError
    try:
        return base64.b64decode(_SPACE.sub("", value), validate=True)
    except binascii.Error:
        raise ValueError from None


def _decimal(precision: int, scale: int) -> Converter:
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if not isinstance(value, str) or len(value) > 1000:
            raise TypeError
        text = value if isinstance(value, Number) else value.replace(",", "")
        if not _DECIMAL.fullmatch(text):
            raise ValueError
        with localcontext() as context:
            context.prec = 1100
            try:
                found = Decimal(text).quantize(unit, ROUND_HALF_UP)
            except InvalidOperation:
                raise ValueError from None
        if len(found.as_tuple().digits) > precision:
            raise OverflowError
        return found

    return convert


def _date(value: Any) -> int:
    """Return days since the epoch."""
    match = _DATE.fullmatch(value.strip()) if isinstance(value, str) and not isinstance(value, Number) else None
    if match is None:
        return _days(value)
    year, month, day = (int(part or 1) for part in match.groups())
    eras, year = _in_python_range(year)
    days = date(year, month, day).toordinal() - _EPOCH_DAY + eras * _DAYS_OF_400_YEARS
    if not -(1 << 31) <= days < 1 << 31:
        raise OverflowError
    return days


def _days(value: Any) -> int:
    """Parse a text with the number of days since the epoch, which Spark 1.5 wrote."""
    if not isinstance(value, str) or isinstance(value, Number) or not re.fullmatch(r"[+-]?[0-9]{1,10}", value):
        raise ValueError
    days = int(value)
    # Reject earlier days: Spark treats them as days of the Julian calendar.
    if not _GREGORIAN_DAY <= days < 1 << 31:
        raise OverflowError
    return days


def _in_python_range(year: int) -> tuple[int, int]:
    """Shift a year into Python's range by eras of 400 years, which repeat the calendar. Return the eras and the
    year."""
    eras = max((year - 9600) // 400, 0) + min((year - 1) // 400, 0)
    return eras, year - 400 * eras


def _timestamp(value: Any) -> int:
    return _micros(value, timezone.utc)


def _timestamp_ntz(value: Any) -> int:
    return _micros(value, None)


def _micros(value: Any, default: tzinfo | None) -> int:
    """Return microseconds since the epoch. ``default`` is the zone for times without one; if it's None, times must not
    have a zone."""
    if isinstance(value, Number) and default is not None:
        if len(value) > 30:
            raise OverflowError
        return _checked_micros(int(value) * 1_000_000)
    match = _TIMESTAMP.fullmatch(value.strip()) if isinstance(value, str) and not isinstance(value, Number) else None
    if match is None:
        raise ValueError
    *parts, fraction, zone = match.groups()
    year, month, day = (int(part or 1) for part in parts[:3])
    hour, minute, second = (int(part or 0) for part in parts[3:])
    if zone and default is None:
        raise ValueError
    eras, year = _in_python_range(year)
    moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone) if zone else timezone.utc)
    micros = (moment - _EPOCH) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0")[:6])
    return _checked_micros(micros + eras * _DAYS_OF_400_YEARS * _DAY)


def _checked_micros(micros: int) -> int:
    if not -_INT64_MAX - 1 <= micros <= _INT64_MAX:
        raise OverflowError
    return micros


def _zone(text: str) -> tzinfo:
    if text in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc
    if match := _OFFSET.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes > 59 or offset > _MAX_OFFSET:
            raise ValueError
        return timezone(-offset if match[1] == "-" else offset)
    # Check the text: ZoneInfo uses its key as a file name.
    if not re.fullmatch(r"[A-Za-z]\w*(/[A-Za-z][\w+-]*){0,2}", text):
        raise ValueError
    return ZoneInfo(_SHORT_ZONES.get(text, text))
